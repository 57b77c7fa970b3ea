"""Studies on a Ray cluster.

The driver is the process that calls `sweep`. It has the data set open, gives points to tasks, and appends their rows as
the tasks end. A task runs one long point, or as many short ones as take about a second, so that the cost of a task does
not matter. The number of tasks in flight is bounded, so a study may have any number of points.
"""

import collections
import functools
import itertools
import os
import pickle
import socket
import time

from ._ceasefire import InputError, Progress

# The time that a task with several points takes.
TASK_S = 1.0
# The most points of a task.
MOST_POINTS = 256
# The longest time for which a row that has arrived is not on the disk.
KEPT_S = 1.0
# The times that Ray begins a task again after its worker died.
RETRIES = 3
# The tasks in flight for each CPU: one runs, and the next is there when it ends.
TASKS_PER_CPU = 2
# The least memory that a task declares, in bytes.
LEAST_BYTES = 1 << 26
# The most points of a task whose memory is computed.
ASKED = 2
# The longest time to wait for the address of a cluster.
CONNECT_S = 10


def sweep(study, data, *, address=None, jobs=None, again=False, progress=None, failed=None):
    """Runs the points that the data set does not have. `progress` sees their number, `failed` rows with errors."""
    try:
        import ray
    except ImportError:
        raise InputError("engine ray: the Python package ray is not installed: pip install ray") from None
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address or os.environ.get("RAY_ADDRESS"), jobs)
    elif address:
        raise InputError(f"address {address}: must be left out, since Ray is connected already")
    try:
        _Sweep(ray, study, data, jobs, again, progress, failed).run()
    finally:
        if is_ours:
            ray.shutdown()


def _connect(ray, address, jobs):
    """Joins the cluster, or begins one on this computer."""
    options = {"log_to_driver": False, "logging_level": "ERROR"}
    if address in (None, "local"):
        options.update(num_cpus=jobs, include_dashboard=False)
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    try:
        if port.isdecimal():
            # Ray itself takes minutes to find out that nothing listens.
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        ray.init(address=address, **options)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        place = f"address {address}: " if address else ""
        # Something listens there. Ray does not say that it wants a token.
        is_silent = type(error) is ConnectionError and "RAY_AUTH_MODE" not in os.environ
        hint = "; if the cluster asks for a token, set RAY_AUTH_MODE=token" if is_silent else ""
        raise InputError(f"engine ray: {place}{_line(error)}{hint}") from None


@functools.lru_cache(maxsize=1)
def _opened(study):
    """The study, which a worker reads once, and not for each task."""
    return pickle.loads(study)


def _run(study, points):
    """A task: the rows of the points, and the time that they took."""
    study, begun, rows = _opened(study), time.monotonic(), []
    for number, name in points:
        point = study.point(number)
        if point.id != name:
            place = f"point {number} is another one on {socket.gethostname()}"
            raise InputError(f"{place}: install the same ceasefire there, and the same files of the study")
        rows.append(point.run())
    return rows, time.monotonic() - begun


class _Sweep:
    def __init__(self, ray, study, data, jobs, again, progress, failed):
        self.ray, self.study, self.data, self.jobs = ray, study, data, jobs
        self.task = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
        self.sent = ray.put(pickle.dumps(study))
        data.keep(study)
        self.left = study.left(data, again)
        self.count = Progress(len(study))
        self.tell, self.tell_failed = progress or (lambda _: None), failed or (lambda _: None)
        # The points of each task in flight.
        self.flying = {}
        # Points of tasks whose worker died, which now run alone.
        self.alone = collections.deque()
        self.rows = []
        # The time that the points took which have ended, and their number.
        self.spent, self.ended = 0.0, 0
        self.look()

    def run(self):
        try:
            while self.fill():
                self.collect(KEPT_S)
                if time.monotonic() - self.looked >= KEPT_S:
                    self.write()
                    self.look()
        except KeyboardInterrupt:
            self.collect(0)
            raise
        finally:
            for task in self.flying:
                self.ray.cancel(task)
            try:
                self.write()
            finally:
                self.data.finish()

    def look(self):
        """Sees the size of the cluster, which may change."""
        self.looked = time.monotonic()
        self.cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        nodes = (node["Resources"].get("memory", 0) for node in self.ray.nodes() if node["Alive"])
        self.most_bytes = max(nodes, default=0) or None

    def fill(self):
        """Gives points to tasks until enough are in flight. Returns whether any is."""
        while len(self.flying) < (self.jobs or TASKS_PER_CPU * self.cpus):
            if self.alone:
                points = [self.alone.popleft()]
            else:
                points = list(itertools.islice(self.left, self.size()))
            if not points:
                break
            names = [(point.number, point.id) for point in points]
            task = self.task.options(memory=self.bytes(points)).remote(self.sent, names)
            self.flying[task] = points
        return bool(self.flying)

    def size(self):
        """The number of points of the next task. At the end it is smaller, so that all CPUs end together."""
        if not self.ended:
            return 1
        fitting = TASK_S / max(self.spent / self.ended, TASK_S / MOST_POINTS)
        left = self.count.all - self.left.before - self.ended
        return max(1, min(int(fitting), left // (TASKS_PER_CPU * self.cpus)))

    def bytes(self, points):
        """The memory that a task declares: a power of two, since Ray keeps workers for tasks that declare the same."""
        # It costs about as much as the beginning of a run. Points of which a task has many are short, hence small, and
        # neighbours are alike.
        asked = points[:: -(-len(points) // ASKED)]
        needed = max(LEAST_BYTES, *(point.host_bytes for point in asked))
        declared = 1 << (needed - 1).bit_length()
        # A run that needs more than any node has is begun alone there, and says so in its row.
        return min(declared, int(self.most_bytes or declared))

    def collect(self, seconds):
        """Waits for a task, at most so long, and takes the rows of all that have ended."""
        self.ray.wait(list(self.flying), num_returns=1, timeout=seconds)
        ready, _ = self.ray.wait(list(self.flying), num_returns=len(self.flying), timeout=0)
        for task in ready:
            points = self.flying.pop(task)
            for row in self.result(task, points):
                self.rows.append(row)
                self.count.count(row)
                if row.error is not None:
                    self.tell_failed(row)

    def result(self, task, points):
        errors = self.ray.exceptions
        try:
            rows, seconds = self.ray.get(task)
        except errors.RayTaskError as error:
            # No run raises an error: the worker lacks something that all points need.
            raise InputError(f"engine ray: {_line(error.cause)}") from None
        except errors.RayError as error:
            if len(points) > 1:
                self.alone.extend(points)
                return []
            rows = [points[0].failed(f"the worker died {RETRIES + 1} times: {_line(error)}")]
            seconds = 0.0
        self.spent += seconds
        self.ended += len(points)
        return rows

    def write(self):
        self.data.append(self.rows)
        self.rows = []
        self.count.before = self.left.before
        self.tell(self.count.now())


def _line(error):
    """The first line of an error's text."""
    lines = str(error).split("\n")
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)
