-- Segments: which layout is chosen where.
SELECT parvacuum_test_create(100000, 10000000);

-- blocks first, first + step ... of a segment get the offsets that a pattern gives for
-- each of them
CREATE FUNCTION fill_segment(segment bigint, blocks int, pattern text, step int DEFAULT 1)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	offs int[];
BEGIN
	PERFORM parvacuum_test_begin(segment);
	FOR i IN 0 .. blocks - 1 LOOP
		EXECUTE 'SELECT ARRAY(' || pattern || ')' INTO offs USING i;
		PERFORM parvacuum_test_block(segment * 128 + i * step, offs);
	END LOOP;
	PERFORM parvacuum_test_end();
	PERFORM parvacuum_test_publish();
	RETURN parvacuum_test_layout(segment);
END $$;

-- a segment without blocks is not stored
SELECT fill_segment(0, 0, '');
SELECT items FROM parvacuum_test_figures();

-- one block
SELECT fill_segment(1, 1, 'SELECT 17');
SELECT fill_segment(2, 1, 'VALUES (17), (19)');
SELECT fill_segment(3, 1, 'SELECT generate_series(100, 199)');
-- the longest run that a locator can have, and the last first offset
SELECT fill_segment(4, 1, 'SELECT generate_series(3, 128)');
SELECT fill_segment(5, 1, 'SELECT generate_series(3, 129)');
SELECT fill_segment(6, 1, 'SELECT generate_series(3, 130)');
SELECT fill_segment(7, 1, 'SELECT 254');
SELECT fill_segment(8, 1, 'SELECT 255');
SELECT fill_segment(9, 1, 'SELECT 256');
SELECT fill_segment(10, 1, 'SELECT 291');

-- equal blocks
SELECT fill_segment(11, 2, 'SELECT 7');
SELECT fill_segment(12, 128, 'SELECT 7');
SELECT fill_segment(13, 128, 'SELECT generate_series(1, 200, 20)');
SELECT fill_segment(14, 64, 'SELECT generate_series(1, 200, 3)', 2);
SELECT fill_segment(15, 128, 'SELECT generate_series(1, 291)');

-- a bitmap and an array that are the same bytes
SELECT fill_segment(16, 2, 'SELECT unnest(CASE WHEN $1 = 0 THEN ''{24,26,28,30,33,34,36,38}''::int[] ELSE ''{2,85,86}'' END)');

-- different blocks with locators only: ranked, or direct if that needs at most 64 bytes
-- or an eighth more
SELECT n, fill_segment(100 + n, n, 'SELECT 10 + $1 % 5 * 40') FROM unnest('{2,86,87,88,128}'::int[]) n;

-- and with containers, most of them shared
SELECT n, fill_segment(300 + n, n, 'SELECT generate_series(1 + $1 % 5, 200, 20)')
FROM unnest('{16,85,89,127}'::int[]) n;

-- absent blocks of a direct segment have the kind of most others: arrays, runs, bitmaps
SELECT n, fill_segment(400 + n, n,
	'SELECT o FROM generate_series(1, 290) o WHERE ($1 + 1) * (o * o + 7 * o + 3) % 307 < 9')
FROM unnest('{60,100}'::int[]) n;
SELECT n, fill_segment(630 + n / 10, n,
	'SELECT o + 290 / 4 * i FROM generate_series(1, 30 + $1 % 40) o, generate_series(0, 3) i')
FROM unnest('{60,100}'::int[]) n;
SELECT n, fill_segment(650 + n / 10, n,
	'SELECT $1 % 7 * 32 + o FROM generate_series(1, 63) o WHERE ($1 + 1) * (o * o + 7 * o + 3) % 131 < 65')
FROM unnest('{60,100}'::int[]) n;

-- dense blocks, all of them different: a matrix, ranked or direct
SELECT n, fill_segment(500 + n, n,
	'SELECT o FROM generate_series(1, 63) o WHERE ($1 + 1) * (o * o + 7 * o + 3) % 131 < 65')
FROM unnest('{20,111,112,113,119,126}'::int[]) n;

-- a matrix of one byte per block, and one that begins late
SELECT fill_segment(700, 128, 'VALUES (1 + $1 % 3), (4 + $1 % 4)');
SELECT fill_segment(701, 128,
	'SELECT o FROM generate_series(228, 291) o WHERE ($1 + 1) * (o * o + 7 * o + 3) % 131 < 65');

-- the largest possible segment
SELECT fill_segment(702, 128,
	'SELECT o FROM generate_series(1, 291) o WHERE ($1 + 1) * (o * o + 7 * o + 3) % 307 < 153');

-- the last, incomplete segment
SELECT fill_segment(781, 32, 'SELECT generate_series(1 + $1 % 5, 200, 20)');

SELECT items FROM parvacuum_test_figures();
SELECT parvacuum_test_check();

-- the ends of the largest table
SELECT parvacuum_test_create(4294967295, 10000000, handles => 2, shared => true);
SELECT fill_segment(33554431, 127, 'SELECT 1 + $1');
SELECT parvacuum_test_probe(4294967294, 127, 1), parvacuum_test_probe(4294967295, 127, 1);
SELECT fill_segment(0, 1, 'SELECT 1');
SELECT fill_segment(16777216, 1, 'SELECT 1');
SELECT parvacuum_test_check();

-- the example in store/deadtids.c
SELECT parvacuum_test_create(32768, 10000000);
SELECT parvacuum_test_begin(2);
SELECT parvacuum_test_block(256, '{3,9,70}');
SELECT parvacuum_test_block(259, '{5,6,7,8}');
SELECT parvacuum_test_end();
SELECT fill_segment(3, 1, 'SELECT 12');
SELECT parvacuum_test_layout(2), parvacuum_test_probe(259, 6), parvacuum_test_check();

-- small tables
SELECT parvacuum_test_create(0, 10000000);
SELECT parvacuum_test_check();
SELECT parvacuum_test_create(1, 10000000);
SELECT fill_segment(0, 1, 'SELECT 1');
SELECT parvacuum_test_check();
