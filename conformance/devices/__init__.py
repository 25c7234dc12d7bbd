"""Devices that compute elsewhere: in another interpreter, or behind a command (docs/devices.md).

`place` says where. `worker` is the file that another interpreter runs, `machine` asks it. `command` calls a command for
some jobs, in the files of `call`; `gather` collects the jobs of many runners for one call.
"""
