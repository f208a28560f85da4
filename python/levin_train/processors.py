"""For which processors a package is: what its code uses of one, and how that is said."""

import functools
import hashlib
import json
import platform

_SSE42 = ("popcnt", "sse4_1", "sse4_2", "ssse3")
_AVX2 = (*_SSE42, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_AVX512 = (*_AVX2, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
# What a package may be compiled for instead of this processor: Inductor's width of vectors, and what these levels have.
PROCESSORS = {"x86-64-v2": (1, _SSE42), "x86-64-v3": (256, _AVX2)}
# Sets of instructions, the largest first, and the processors that have them.
_SETS = (("AVX-512", _AVX512, "Intel's for servers since 2017, AMD's since Zen 4 (2022)"),
         ("AVX2", _AVX2, "most of Intel's since 2013 and of AMD's since 2015"),
         ("SSE4.2", _SSE42, "Intel's since 2008 and AMD's since 2011"))
# Names in /proc/cpuinfo, by their beginning, of what a compiler may use.
_USED = ("sse4", "avx", "fma", "f16c", "bmi", "amx", "asimd", "sve", "movbe", "gfni", "vaes", "vpclmul", "popcnt", "abm", "ssse3")


def features_of(processor):
    """What the code of a package for `processor`, an option of export(), may use of a processor, as /proc/cpuinfo names it."""
    if processor in PROCESSORS:
        return sorted(PROCESSORS[processor][1])
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), ":").split(":")[1].split()
    except OSError:
        return []
    return sorted(flag for flag in flags if flag.startswith(_USED))


def runs_on(processor, features):
    """On which processors a package runs that needs these features, in words."""
    name, known, whose = next((each for each in _SETS if set(each[1]) <= set(features)), ("", (), ""))
    more = sorted(set(features) - set(known))
    if not name:
        return f"it runs on {platform.machine()} processors with {', '.join(more)}" if more else f"it runs on {platform.machine()} processors"
    if processor in PROCESSORS:
        return f"it runs on processors with {name}: {whose}"
    return f"it runs on processors with {name}{', and with ' + ', '.join(more) if more else ''}, as this machine's"


def advice(processor, features):
    """Which `processor` makes a package run on more processors than this one does; an empty text where none does."""
    others = [(level, each, whose) for level, (_, known) in reversed(PROCESSORS.items()) for each, had, whose in _SETS
              if had == known and set(known) < set(features)]
    if processor in PROCESSORS or not others:
        return ""
    return "For others export it with " + " or ".join(f'processor="{level}" (all with {each}: {whose})' for level, each, whose in others)


@functools.cache
def vector_sets(find):
    """What `find` gives, Inductor's sets of instructions that this processor and this compiler have, which it tries out with programs. They are
    remembered in Inductor's cache, by name."""
    import torch
    from torch._inductor.cpp_builder import get_compiler_version_info, get_cpp_compiler
    from torch._inductor.cpu_vec_isa import supported_vec_isa_list

    from levin_train import cache

    known_by = (torch.__version__, get_compiler_version_info(get_cpp_compiler()), features_of("native"))
    path = cache.path_of(f"levin_vectors_{hashlib.sha256(json.dumps(known_by).encode()).hexdigest()[:16]}.json")
    by_name = {str(each): each for each in supported_vec_isa_list}
    try:
        with open(path, encoding="utf-8") as file:
            return [by_name[name] for name in json.load(file)]
    except (OSError, ValueError, KeyError):
        pass
    found = find()
    names = [str(each) for each in found]
    if set(names) <= set(by_name):
        cache.write(path, json.dumps(names))
    return found
