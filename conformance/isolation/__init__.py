"""Runs untrusted backends in processes of their own, which may crash, hang or misbehave.

`pool` gives cases to pairs of processes, and turns the death of one into a result. A `judge`, forked from the run,
knows the case, its table and its goldens; it asks a `runner`, which has the backend and knows nothing but the question.
`base_process` is a process without the run's memory. For each run it forks a `reaper`, which ends all processes that a
backend leaves, and below it the `forkserver`, which has loaded the backend and forks runners. A runner looks at what a
program leaves behind (`state`, `leaks`), and has a `clean_process` beside it, which runs blobs and never compiled one.

Nothing that the backend's process loads judges anything, and what comes from it is read as data. All of these run with
the rights of the user: against a backend that attacks the machine itself, use a container.
"""
