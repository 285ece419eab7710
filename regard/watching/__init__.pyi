from .call import Call as Call
from .doctor import Finding as Finding
from .recording import Recording as Recording
from .statistics.row_statistics import Statistics as Statistics
from .watch_context import watch as watch
