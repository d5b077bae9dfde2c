-- The guarantee of the scheduler, with a hostile owner: worker time is shared between owners, however many tables an
-- owner has, however long they take, and whatever their scores are.  The owner here keeps all workers busy for ever.
-- A table of another owner waits for the scan of its database, for a worker to come there, and for a table that each
-- worker is at, ten minutes where that is a large one.  Tables in danger do not wait for those of other owners.  At the end no table has waited for longer than
-- others did until they were begun.
CREATE TEMP TABLE simulated AS
SELECT databases, hot_databases, workers, places, begun > 2000 AS busy, danger < 15 * 60 AS danger, quiet < 25 * 60 AS quiet,
	beside_hot < 40 * 60 AS beside_hot, never, s::text AS seconds
FROM (VALUES (1, 1, 1, 3, 32768), (2, 20, 5, 3, 32768), (3, 200, 5, 3, 32768), (4, 300, 10, 5, 32768), (5, 300, 10, 5, 256)) v(no, databases, hot_databases, workers, places),
	parvacuum_test_simulate(databases, hot_databases, workers, 6, places) s ORDER BY no;
SELECT databases, hot_databases, workers, places, busy, danger, quiet, beside_hot, never FROM simulated;
