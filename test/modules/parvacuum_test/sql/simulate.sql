-- The guarantee of the scheduler, with hostile owners: no table is begun before one of its database that
-- has been waiting for an hour longer, nor one that is not in danger of wraparound before one that is.
-- So each is begun when an hour has passed and each of the others has had one turn: with what the
-- owners do here, who keep all workers busy for ever, in two hours, and in three where large tables
-- wait for a place.  Those in danger are begun when their database was looked at.  No table waits for longer at
-- the end than others did until they were begun.
CREATE TEMP TABLE simulated AS
SELECT databases, hot_databases, workers, places, begun > 3000 AS busy, danger < 15 * 60 AS danger, quiet < 3 * 3600 AS quiet,
	beside_hot < 2 * 3600 AS beside_hot, never, out_of_order, s::text AS seconds
FROM (VALUES (1, 20, 5, 1, 32768), (2, 20, 5, 3, 32768), (3, 200, 5, 3, 32768), (4, 300, 10, 5, 32768), (5, 300, 10, 5, 256)) v(no, databases, hot_databases, workers, places),
	parvacuum_test_simulate(databases, hot_databases, workers, 6, places) s ORDER BY no;
SELECT databases, hot_databases, workers, places, busy, danger, quiet, beside_hot, never, out_of_order FROM simulated;
