"""How far a training goes: what messages and rows cost, measured on this machine; a simulation of them, held to trainings of 1
to 8 processes; and what it says of machines that nobody here has. See docs/how_far.md.

    python -m benchmarks.scale               all of it, at most 8 minutes on an idle machine of two cores
    python -m benchmarks.scale.constants     the constants alone
"""
