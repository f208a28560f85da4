"""Compiles the entries of a package at the same time, in processes that are copies of this one, and says how far it is."""

import os
import pickle
import select
import sys
import time
import warnings

import torch

from levin_train.errors import ExportError


class Progress:
    """A line on a terminal that says what is done, and is gone at the end."""

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._shows = self._stream.isatty()

    def say(self, text):
        if self._shows:
            self._stream.write(f"\r\033[Klevin: {text} …")
            self._stream.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._shows:
            self._stream.write("\r\033[K")
            self._stream.flush()


def compiled_entries(graphs, compiled, progress):
    """What `compiled` gives for each graph, by name. The first is compiled here, the others on other processors where there are any."""
    first, *others = graphs
    count = min(_processors() - 1, len(others)) if sys.platform == "linux" else 0
    workers = [(names, _Worker({name: graphs[name] for name in names}, compiled)) for names in (others[index::count] for index in range(count))]
    files = {}
    try:
        progress.say(f"{', '.join(graphs)}: compiling")
        begin = time.monotonic()
        files[first] = compiled(graphs[first])
        patience = 120 + 5 * (time.monotonic() - begin)  # a copy of a process with threads may stand still
        for names, worker in workers:
            progress.say(f"{', '.join(names)}: compiling ({len(files)} of {len(graphs)} done)")
            for name, (found, sizes) in worker.results(patience * len(names)).items():
                files[name] = found
                graphs[name].special_sizes |= sizes
    finally:
        for _, worker in workers:
            worker.stop()
    for name in others:  # what a process could not compile for a reason of its own, such as a device that it cannot use
        if name not in files:
            progress.say(f"{name}: compiling ({len(files)} of {len(graphs)} done)")
            files[name] = compiled(graphs[name])
    return {name: files[name] for name in graphs}


def _processors():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A copy of this process that compiles some graphs, one after another, and ends."""

    def __init__(self, graphs, compiled):
        self._from, to = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there may be threads: none of them is needed there
            self._id = os.fork()
        if self._id:
            os.close(to)
            return
        os.close(self._from)
        try:
            with os.fdopen(to, "wb") as pipe:
                pickle.dump(_results(graphs, compiled), pipe)
        finally:
            os._exit(0)

    def results(self, patience):
        """Files and special sizes by the graph's name, without those that could not be compiled there in so many seconds. Raises ExportError
        for what cannot be compiled at all."""
        if not select.select([self._from], [], [], patience)[0]:
            return {}
        with os.fdopen(self._from, "rb") as pipe:
            self._from = None
            sent = pipe.read()
        found = pickle.loads(sent) if sent else {}
        if isinstance(found, str):
            raise ExportError(found)
        return found

    def stop(self):
        if self._from is not None:
            os.close(self._from)
            os.kill(self._id, 9)
        os.waitpid(self._id, 0)


def _results(graphs, compiled):
    import torch._inductor.config

    torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
    torch._inductor.config.compile_threads = 1
    found = {}
    for name, graph in graphs.items():
        try:
            found[name] = compiled(graph), graph.special_sizes
        except ExportError as error:
            return str(error)
        except Exception:  # it is compiled again where all of the process is there
            continue
    return found
