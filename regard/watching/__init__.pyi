from .call import Call as Call
from .doctor import Finding as Finding
from .recorder import watch as watch
from .recording import Recording as Recording
from .statistics.row_statistics import Statistics as Statistics
