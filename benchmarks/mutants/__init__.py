"""Mutants that nobody chose: small changes of vendors' rules, lowerings and kernels, each judged by the cases.

    python -m benchmarks.mutants neutron --count 500 --seed 0 --out mutants-neutron.jsonl

Sites come from a walk over the syntax trees of every module that the vendor's cases run: comparisons, arithmetic,
boolean operators, constants, the order of arguments, negations, dropped statements. A change is drawn by seed among
those whose line some case executes, and tried in a process of its own on the cases that execute it, until one fails.
What only refuses bad files and arguments, or words a message, is judged by the unit tests that execute its line, too.
What is written is read again, so that a run goes on where it was stopped.
"""
