-- The error of the numbers of rows that VACUUM leaves in pg_class and in the statistics.
-- Patterns of changes, each on equal tables: "stock" is vacuumed by stock VACUUM, "ours"
-- by parvacuum, and "workers" by parvacuum with two workers.  A test and a benchmark
-- execute the statements of reltuples.statements, and read reltuples.result.
CREATE SCHEMA reltuples;

CREATE TABLE reltuples.result (pattern text, step int, tab text, rel text, pages int, truth float8, reltuples float8, n_live_tup float8);

-- The relations that are measured: the table and, if it has any pages, its TOAST table.
CREATE FUNCTION reltuples.measure(pattern text, step int, tab text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r record;
	truth float8;
BEGIN
	PERFORM pg_stat_clear_snapshot();
	FOR r IN SELECT c.oid, c.relkind, c.relpages, c.reltuples FROM pg_class t JOIN pg_class c ON c.oid IN (t.oid, t.reltoastrelid)
		WHERE t.oid = tab::regclass AND c.relpages > 0
	LOOP
		EXECUTE format('SELECT count(*) FROM %s', r.oid::regclass) INTO truth;
		INSERT INTO reltuples.result VALUES (pattern, step, tab, CASE r.relkind WHEN 't' THEN 'TOAST' ELSE 'table' END,
			r.relpages, truth, r.reltuples, pg_stat_get_live_tuples(r.oid));
	END LOOP;
END $$;

-- t: the table; n: its rows at the start; p: rows of a page; i: the number of the next
-- vacuum; f: a file. p rows with the default pad fill a page; chosen selects about one
-- of a number of rows at random.
CREATE FUNCTION reltuples.pad(bytes int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT repeat('x', bytes) $$;
CREATE FUNCTION reltuples.chosen(id int, i int, one_of int) RETURNS bool LANGUAGE sql IMMUTABLE AS $$
	SELECT (hashint8extended(id, i) & 1073741823) % one_of = 0
$$;

-- share: the pages of the table, as a part of the number asked for.  noise: percent of the
-- truth by which our error may be larger than that of stock VACUUM, because we have read
-- a sample only: about four standard errors.  It is small unless rows differ in size,
-- because the free space map shows how full pages are.
CREATE TABLE reltuples.pattern (ord int GENERATED ALWAYS AS IDENTITY, pattern text PRIMARY KEY, share float8 NOT NULL DEFAULT 1,
	noise float8 NOT NULL DEFAULT 0.5,
	options text NOT NULL DEFAULT 'fillfactor = 100', pad text NOT NULL DEFAULT '500', setup text[] NOT NULL DEFAULT '{}', step text[] NOT NULL);

-- one page of a given number is changed: one row of it, where the page has mostly no
-- room
INSERT INTO reltuples.pattern (pattern, setup, step)
SELECT format('one page in %s', n), '{}', ARRAY[format('UPDATE {t} SET v = v + 1 WHERE id %% ({p} * %s) = {i}', n)]
FROM unnest(ARRAY[2, 3, 5, 17, 31, 33]) n;

INSERT INTO reltuples.pattern (pattern, share, noise, options, pad, setup, step) VALUES
('every second page nearly empty', DEFAULT, DEFAULT, DEFAULT, DEFAULT,
	'{"DELETE FROM {t} WHERE id / {p} % 2 = 0 AND id % {p} <> 5"}', '{"UPDATE {t} SET v = v + 1 WHERE id / {p} % 2 = 0"}'),
('nearly empty here and there', DEFAULT, DEFAULT, DEFAULT, DEFAULT,
	'{"DELETE FROM {t} WHERE reltuples.chosen(id / {p}, 0, 3) AND id % {p} <> 5"}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id / {p}, 0, 9) AND id % {p} = 5"}'),
('random updates', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 100)"}'),
('clustered updates', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}', '{"UPDATE {t} SET v = v + 1 WHERE id BETWEEN {n} / 10 * ({i} - 1) AND {n} / 10 * ({i} - 1) + {n} / 30"}'),
('append only', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}', '{"INSERT INTO {t} SELECT g, 0, reltuples.pad(500) FROM generate_series({n} + {i} * {n} / 30, {n} + ({i} + 1) * {n} / 30 - 1) g"}'),
('append, delete the oldest', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}',
	'{"INSERT INTO {t} SELECT g, 0, reltuples.pad(500) FROM generate_series({n} + {i} * {n} / 30, {n} + ({i} + 1) * {n} / 30 - 1) g",
	  "DELETE FROM {t} WHERE id < {i} * {n} / 30"}'),
('random deletes', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}', '{"DELETE FROM {t} WHERE reltuples.chosen(id, {i}, 80)"}'),
('half deleted, updates in the rest', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"DELETE FROM {t} WHERE id < {n} / 2 AND id % 10 <> 0"}',
	'{"UPDATE {t} SET v = v + 1 WHERE id > {n} / 2 AND reltuples.chosen(id, {i}, 80)"}'),
('half deleted, updates in it', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"DELETE FROM {t} WHERE id < {n} / 2 AND id % 10 <> 0"}',
	'{"UPDATE {t} SET v = v + 1 WHERE id < {n} / 2 AND reltuples.chosen(id / 10, {i}, 30)"}'),
('wide and narrow rows', 2, 4, DEFAULT, 'CASE WHEN reltuples.chosen(g, 0, 9) THEN 1500 ELSE 40 END', '{}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 100)"}'),
('wide and narrow rows, in turn', 1.8, 4, DEFAULT, 'CASE WHEN g / 200 % 3 = 0 THEN 40 ELSE 300 END', '{}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 100)"}'),
('fillfactor and HOT updates', DEFAULT, DEFAULT, 'fillfactor = 70', DEFAULT, '{}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 100)"}'),
('indexed column updated', DEFAULT, DEFAULT, 'fillfactor = 90', DEFAULT, '{"CREATE INDEX ON {t} (v)"}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 80)"}'),
('inserts that abort', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}',
	'{"BEGIN", "INSERT INTO {t} SELECT g, 0, reltuples.pad(500) FROM generate_series(1, {n} / 50) g", "ROLLBACK", "UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 200)"}'),
('COPY between updates', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"COPY (SELECT * FROM {t} WHERE id < {n} / 50) TO ''{f}''"}',
	'{"COPY {t} FROM ''{f}''", "UPDATE {t} SET v = v + 1 WHERE id % ({p} * 4) = {i}"}'),
('old transaction open', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"BEGIN", "SELECT pg_current_xact_id()", "PREPARE TRANSACTION ''{t}''"}',
	'{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 400)", "DELETE FROM {t} WHERE reltuples.chosen(id, -{i}, 800)"}'),
('frozen', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"VACUUM (FREEZE) {t}"}', '{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 200)"}'),
('TOAST', 0.3, 1, DEFAULT, DEFAULT, '{"ALTER TABLE {t} ALTER pad SET STORAGE EXTERNAL", "UPDATE {t} SET pad = reltuples.pad(3000) WHERE id % 4 = 0"}',
	'{"UPDATE {t} SET pad = reltuples.pad(2600) WHERE id % 4 = 0 AND reltuples.chosen(id, {i}, 80)"}'),
('ANALYZE between', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{}', '{"DELETE FROM {t} WHERE reltuples.chosen(id, {i}, 100)", "ANALYZE {t}", "UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 100)"}'),
('many rounds', DEFAULT, DEFAULT, 'vacuum_index_cleanup = on', DEFAULT, '{"CREATE INDEX ON {t} (id)", "SET parvacuum.store_limit = 0"}',
	'{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id, {i}, 100)", "DELETE FROM {t} WHERE reltuples.chosen(id, -{i}, 100)"}'),
('aggressive', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"DELETE FROM {t} WHERE reltuples.chosen(id / {p}, 0, 3) AND id % {p} <> 5", "VACUUM (FREEZE) {t}", "SET vacuum_freeze_table_age = 0"}',
	'{"UPDATE {t} SET v = v + 1 WHERE reltuples.chosen(id / {p}, {i}, 9) AND id % {p} = 5"}'),
('all short runs skipped', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"DELETE FROM {t} WHERE id / {p} % 3 = 0 AND id % {p} <> 5", "SET parvacuum.shortest_skip = 1"}',
	'{"UPDATE {t} SET v = v + 1 WHERE id / {p} % 3 = 0"}'),
('none skipped', DEFAULT, DEFAULT, DEFAULT, DEFAULT, '{"DELETE FROM {t} WHERE id / {p} % 3 = 0 AND id % {p} <> 5", "SET parvacuum.shortest_skip = 32"}',
	'{"UPDATE {t} SET v = v + 1 WHERE id / {p} % 3 = 0"}'),
('small table', 0.3, DEFAULT, DEFAULT, DEFAULT, '{"DELETE FROM {t} WHERE id / {p} % 2 = 0 AND id % {p} <> 5"}', '{"UPDATE {t} SET v = v + 1 WHERE id / {p} % 2 = 0"}');

-- The statements of a pattern, on tables of about this many pages, with this many
-- vacuums that are measured.
CREATE FUNCTION reltuples.statements(wanted text, pages int, vacuums int, tabs text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	pat reltuples.pattern;
	p CONSTANT int := 15;
	n int;
	t text;
	s text;
BEGIN
	SELECT * INTO STRICT pat FROM reltuples.pattern x WHERE x.pattern = wanted;
	n := pages * pat.share * p;
	RETURN NEXT 'RESET parvacuum.store_limit';
	RETURN NEXT 'RESET parvacuum.shortest_skip';
	RETURN NEXT 'RESET vacuum_freeze_table_age';
	FOREACH t IN ARRAY tabs LOOP
		RETURN NEXT format('CREATE TABLE %s (id int, v int, pad text) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off, %s)', t, pat.options);
		IF t <> 'stock' THEN
			RETURN NEXT format('ALTER TABLE %s SET (parvacuum.enabled)', t);
		END IF;
		RETURN NEXT format('INSERT INTO %s SELECT g, 0, reltuples.pad(%s) FROM generate_series(0, %s - 1) g', t, pat.pad, n);
	END LOOP;
	FOR i IN 0 .. vacuums LOOP
		FOREACH t IN ARRAY tabs LOOP
			FOREACH s IN ARRAY CASE i WHEN 0 THEN pat.setup ELSE pat.step END LOOP
				s := replace(replace(replace(s, '{t}', t), '{n}', n::text), '{p}', p::text);
				RETURN NEXT replace(replace(s, '{i}', i::text), '{f}', current_setting('data_directory') || '/reltuples');
			END LOOP;
			-- what is counted later would come on top of what VACUUM says
			RETURN NEXT 'SELECT pg_stat_force_next_flush()';
			RETURN NEXT format('VACUUM (PARALLEL %s) %s', CASE t WHEN 'workers' THEN 2 ELSE 0 END, t);
			IF i > 0 THEN
				RETURN NEXT format('SELECT reltuples.measure(%L, %s, %L)', wanted, i, t);
			END IF;
		END LOOP;
	END LOOP;
	FOREACH t IN ARRAY tabs LOOP
		IF wanted = 'old transaction open' THEN
			RETURN NEXT format('ROLLBACK PREPARED %L', t);
		END IF;
		RETURN NEXT format('DROP TABLE %s', t);
	END LOOP;
END $$;
