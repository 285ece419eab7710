from .call import Call as Call
from .doctor import Finding as Finding
from .recording import watch as watch
from .seen import Seen as Seen
from .statistics import Statistics as Statistics
