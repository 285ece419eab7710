"""`regard learn`: exercises, drills, cards and progress, one module for each group of commands."""

from regard.cli.learn.cards import cards, interview
from regard.cli.learn.drills import diagram, drill
from regard.cli.learn.exercises import hint, next_exercise, run, solution, status, watch
from regard.cli.learn.progress import checklist, export, reset
from regard.cli.options import group

learn = group(
    "learn",
    "Learn attention with exercises, drills by hand and interview cards, in English or 中文.",
    no_args_is_help=True,
)

learn.command()(status)
learn.command("next")(next_exercise)
for command in (run, watch, hint, solution, reset, export, cards, interview, drill, diagram, checklist):
    learn.command()(command)
