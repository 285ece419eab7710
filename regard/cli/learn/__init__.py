"""`regard learn`: exercises, drills, cards and progress, one module for each group of commands."""

from regard.cli.learn.cards import cards, interview
from regard.cli.learn.doctor import doctor
from regard.cli.learn.drills import diagram, drill
from regard.cli.learn.exercises import hint, next_exercise, run, solution, status, watch
from regard.cli.learn.progress import checklist, export, reset
from regard.cli.options import add_command, group

learn = group(
    "learn",
    "Learn attention with exercises, drills by hand and interview cards, in English or 中文.",
    no_args_is_help=True,
)

add_command(learn, status, "learn status")
add_command(learn, next_exercise, "learn next")
for command in (run, watch, hint, solution, reset, export, cards, interview, drill, diagram, checklist, doctor):
    add_command(learn, command, f"learn {command.__name__}")
