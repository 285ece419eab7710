from . import online as online
from . import reference as reference
from .heads import check_groups as check_groups
from .heads import check_heads as check_heads
from .heads import divisors as divisors
from .heads import fit_heads as fit_heads
from .heads import nearest_heads as nearest_heads
