-- The limit, and several fillings.

-- Fill the store until it is full, reset it and fill it again.
CREATE FUNCTION rounds(lim bigint, shared boolean, handles int,
					   OUT round int, OUT progress boolean, OUT full_store boolean,
					   OUT checked boolean, OUT within_limit boolean, OUT grown bigint)
RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	empty bigint;
	before bigint;
	done bigint[] := '{}';
BEGIN
	PERFORM parvacuum_test_create(10000000, lim, shared, handles => handles);
	SELECT memory INTO empty FROM parvacuum_test_figures();
	before := empty;
	FOR round IN 1 .. 3 LOOP
		SELECT array_agg(parvacuum_test_fill('half', h * 10000, 5000, round, h) ORDER BY h)
			INTO done FROM generate_series(0, handles - 1) h;
		progress := done[1] > 0;
		full_store := 5000 > ALL (done);
		checked := parvacuum_test_check() > 0;
		SELECT memory <= greatest(lim, empty) + 8192, memory - before, memory
			INTO within_limit, grown, before FROM parvacuum_test_figures();
		grown := CASE WHEN round = 1 THEN NULL ELSE grown END;
		PERFORM parvacuum_test_reset(round % handles);
		PERFORM parvacuum_test_check();
		rounds.round := round;
		RETURN NEXT;
	END LOOP;
END $$;

SELECT lim, r.* FROM unnest('{0,1,65536,100000,200000}'::bigint[]) lim,
	rounds(lim, false, 1) r;
SELECT lim, r.* FROM unnest('{0,1,65536,100000,200000}'::bigint[]) lim,
	rounds(lim, true, 1) r;
SELECT lim, r.* FROM unnest('{0,1,65536,100000,200000}'::bigint[]) lim,
	rounds(lim, true, 4) r;

-- Two participants in turn, in the same leaves of the directory.
SELECT parvacuum_test_create(1000000, 300000, true, handles => 2);
SELECT sum(parvacuum_test_fill('mixed', s, 1, s, (s % 2)::int)) < 1000 AS full_store
FROM generate_series(0, 999) s;
SELECT parvacuum_test_check() > 0 AS checked;
SELECT parvacuum_test_begin(1000, 0) AS first, parvacuum_test_begin(1001, 1) AS second;
SELECT memory <= bytes_limit + 8192 AS within_limit FROM parvacuum_test_figures();

-- After a reset, either participant may go on, with the memory that the other had.
SELECT parvacuum_test_create(1000000, 300000, true, handles => 2);
SELECT parvacuum_test_fill('few', 0, 50, 1, 0), parvacuum_test_fill('few', 50, 50, 2, 1);
SELECT parvacuum_test_check() > 0 AS checked;
SELECT memory AS memory_before FROM parvacuum_test_figures() \gset
SELECT parvacuum_test_reset(0);
SELECT items, memory = :memory_before AS kept FROM parvacuum_test_figures(1);
SELECT parvacuum_test_check();
SELECT parvacuum_test_layout(10, 0), parvacuum_test_layout(60, 1);
SELECT parvacuum_test_fill('few', 40, 90, 3, 1);
SELECT parvacuum_test_check() > 0 AS checked;
SELECT memory = :memory_before AS kept FROM parvacuum_test_figures();
SELECT parvacuum_test_reset(1);
SELECT parvacuum_test_fill('one', 0, 100, 4, 0), parvacuum_test_fill('half', 300, 1, 5, 1);
SELECT parvacuum_test_check() > 0 AS checked;

-- A reset takes away the spare chunk of a participant.
SELECT parvacuum_test_create(1000000, 300000, true, handles => 2);
SELECT parvacuum_test_fill('half', 0, 2, 1, 1);
SELECT parvacuum_test_begin(2, 1);
SELECT parvacuum_test_end(1);
SELECT parvacuum_test_reset(0);
SELECT parvacuum_test_fill('half', 0, 5, 2, 0), parvacuum_test_fill('half', 10, 5, 3, 1);
SELECT parvacuum_test_check() > 0 AS checked;

-- A limit beyond the addressable size is lowered.
SELECT parvacuum_test_create(1000, 1000000000000);
SELECT bytes_limit FROM parvacuum_test_figures();
