from .call import Call as Call
from .doctor.findings import Finding as Finding
from .doctor.findings import Findings as Findings
from .doctor.run_comparison import Agreement as Agreement
from .doctor.run_comparison import agree as agree
from .recording import Recording as Recording
from .statistics.row_statistics import Statistics as Statistics
from .watch_context import watch as watch
