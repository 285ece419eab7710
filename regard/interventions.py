"""Interventions for `regard.intervene`; see `regard.watching.interventions`."""

from regard.watching.interventions.call_changes import LiveCall as LiveCall
from regard.watching.interventions.kinds import ablate as ablate
from regard.watching.interventions.kinds import knockout as knockout
from regard.watching.interventions.kinds import patch as patch
from regard.watching.interventions.kinds import reweight as reweight

__all__ = ["LiveCall", "ablate", "knockout", "patch", "reweight"]
