"""Where the Python that runs this has torch, for a C++ compiler: version, folder of headers, folder of libraries, a
line each. Fails where there is no torch; prints the version alone where torch.distributed or a part of it is missing."""
import os

import torch
import torch.distributed as dist

print(torch.__version__)
home = os.path.dirname(torch.__file__)
headers, libraries = os.path.join(home, "include"), os.path.join(home, "lib")
needed = (os.path.join(headers, "torch/csrc/distributed/c10d/GroupRegistry.hpp"), os.path.join(libraries, "libtorch_cpu.so"))
# C++ of another ABI would look for other names than the library has.
if dist.is_available() and dist.is_gloo_available() and torch._C._GLIBCXX_USE_CXX11_ABI and all(map(os.path.exists, needed)):
    print(headers)
    print(libraries)
