-- Containers: which kind is chosen where, and whether each is read back correctly.
CREATE EXTENSION parvacuum_test;

-- n offsets from 1 to 100, no two of them adjacent: a bitmap takes 15 bytes
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT 1 + i * 99 / (n - 1) FROM generate_series(0, n - 1) i))
FROM generate_series(12, 16) n;

-- from 1 to 255 it takes 34; an array is compared 16 offsets at a time
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT 1 + i * 254 / (n - 1) FROM generate_series(0, n - 1) i))
FROM unnest('{15,16,17,18,31,32,33,34}'::int[]) n;

-- n runs of two offsets each: runs are as small as an array, and preferred
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT 1 + i / 2 * 28 + i % 2 FROM generate_series(0, 2 * n - 1) i))
FROM generate_series(1, 4) n;

-- n runs of three, from 1 to 255: a bitmap takes 34 bytes
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT 1 + i / 3 * 252 / (n - 1) + i % 3 FROM generate_series(0, 3 * n - 1) i))
FROM generate_series(14, 18) n;

-- runs and single offsets: an array if that saves a byte
SELECT parvacuum_test_container(VARIADIC '{1,2,100}');
SELECT parvacuum_test_container(VARIADIC '{1,2,99,100}');
SELECT parvacuum_test_container(VARIADIC '{1,2,50,99,100}');

-- one run grows: a bitmap is equally small as long as it is within one byte
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT generate_series(1, n)))
FROM unnest('{1,2,7,8,15,16,255,256,291}'::int[]) n;

-- offsets that fit in one byte, and that do not
SELECT n, parvacuum_test_container(1, n)
FROM unnest('{2,9,254,255,256,257,291}'::int[]) n;
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT generate_series(n - 39, n)))
FROM unnest('{254,255,256,291}'::int[]) n;

-- wide arrays and runs against the bitmap of 39 bytes
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT 1 + i * 290 / (n - 1) FROM generate_series(0, n - 1) i))
FROM generate_series(17, 20) n;
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT 1 + i / 3 * 288 / (n - 1) + i % 3 FROM generate_series(0, 3 * n - 1) i))
FROM generate_series(8, 11) n;

-- leading empty bytes of a bitmap are not stored
SELECT n, parvacuum_test_container(VARIADIC
	ARRAY(SELECT n + 2 * i FROM generate_series(0, 19) i))
FROM unnest('{1,8,200,252}'::int[]) n;

-- every single offset, every pair, every run, every gap
SELECT parvacuum_test_all_containers();
