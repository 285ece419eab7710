"""Attention by hand: drills with small exact numbers.

`generate` draws the numbers of a kind of drill (`kinds/`) from a level and a seed. A `Drill` consists of steps
(`attention_steps`), computed exactly with `matrices` of `exact_numbers`. `Drill.check` parses the learner's answers
(`parse_answer`), grades each step with the learner's own earlier results, and names common mistakes. All texts are in
texts.toml, in English and Chinese.
"""
