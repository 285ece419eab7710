from .gymnasium_env import ConnectX as ConnectX
from .pettingzoo_env import ConnectXAec as ConnectXAec
from .vector_env import Step as Step
from .vector_env import VectorEnv as VectorEnv
