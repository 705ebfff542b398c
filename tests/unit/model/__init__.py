"""An exhaustive model of one operation's life against a hostile provider. Time is small integer ticks.

`world` is a state of everything, `provider` what the other side may do, `ledger` what our side does with the real functions of
the protocol, `explore` walks every interleaving, breadth first, and checks the properties in each state.
"""
