"""May this node go to the NPU? One function per rule, one list of rules per operator."""
