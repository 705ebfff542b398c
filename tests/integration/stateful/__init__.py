"""A machine that does to the ledger whatever hosts, workers, brokers, people, providers and time may do.

`machine` joins the rules of `staging`, `carrying` (by `steps`), `people` and `weather`; `provider` is the hostile other side,
`snapshot` what stands in the database, `gate` and `wish` say what must be answered, `invariant` what must always hold, and
`rest` lets everything come to rest. Ledger and clock are PostgreSQL's; time passes by moving rows into the past.
"""
