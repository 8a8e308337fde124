"""scripts/cuda-options leaves out what a CUDA toolkit lacks, by name, and says so: toolkits of empty files.

usage: cuda_options.py ROOT"""
import os
import pathlib
import subprocess
import sys
import tempfile

PARTS = ["bin/nvcc", "lib64/libcudart.so", "include/cuda_runtime_api.h", "include/cublasLt.h", "include/cudnn.h", "include/cufftXt.h", "include/nccl.h",
         "include/nvtx3/nvToolsExt.h"]

# what is missing: options beside that of the root, what standard error says
WANTED = {
    None: ("", ""),
    "bin/nvcc": (" -Dcuda=disabled", "no bin/nvcc, so no CUDA module"),
    "lib64/libcudart.so": (" -Dcuda=disabled", "no lib64/libcudart, so no CUDA module"),
    "include/cuda_runtime_api.h": (" -Dcuda=disabled", "no include/cuda_runtime_api.h, so no CUDA module"),
    "include/cublasLt.h": ("", "no include/cublasLt.h, so a CUDA module without that library"),
    "include/cudnn.h": ("", "no include/cudnn.h, so a CUDA module without that library"),
    "include/cufftXt.h": ("", "no include/cufftXt.h, so a CUDA module without that library"),
    "include/nccl.h": ("", "no include/nccl.h, so a CUDA module without that library"),
    "include/nvtx3/nvToolsExt.h": (" -Dnvtx=disabled", "no include/nvtx3/nvToolsExt.h, so no ranges of NVTX"),
}


def make(path, is_program=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755 if is_program else 0o644)


def toolkit(folder, missing):
    for part in PARTS:
        if part != missing:
            make(folder / part, part == "bin/nvcc")
    return folder


def options(script, root, programs):
    """With a compiler that finds no header on its own path."""
    env = dict(os.environ, NVCC_ROOT=str(root), PATH=f"{programs}:{os.environ['PATH']}")
    run = subprocess.run([script], env=env, capture_output=True, text=True, check=True)
    return run.stdout.strip(), run.stderr.strip()


def main():
    script = pathlib.Path(sys.argv[1]) / "scripts/cuda-options"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        make(folder / "programs/gcc", True)
        for i, (missing, (wanted, said)) in enumerate(WANTED.items()):
            root = toolkit(folder / str(i), missing)
            want = f"-Dnvcc_root={root}{wanted}", f"CUDA toolkit in {root}: {said}" if said else ""
            got = options(script, root, folder / "programs")
            if got != want:
                print(f"without {missing}: got {got}, wanted {want}")
                failed += 1
        root = folder / "nowhere"
        got = options(script, root, folder / "programs")[0]
        if got != f"-Dnvcc_root={root} -Dcuda=disabled -Dnvtx=disabled":
            print(f"without a toolkit: got {got}")
            failed += 1
    print(f"{len(WANTED) + 1} toolkits, {failed} wrong")
    return failed > 0


sys.exit(main())
