-- The bitmaps of an index's pages: each bit is found again, in its own bitmap, in memory of
-- all sizes around that of a word.  Pages beyond the bitmaps share bits with others.
SELECT min(bits), max(bits), bool_and(bits <= bytes * 8 / 2) AS in_the_memory, max(bytes * 8 / 2 - bits) AS most_unused
FROM generate_series(8, 200) bytes, parvacuum_test_btree_bitmaps(bytes) bits;

-- There is a bit for each page, and one for each eighth page that is added, up to the largest
-- index.
SELECT pages, bytes, bits, bits >= pages * 9 / 8 AS room
FROM unnest('{32, 8191, 8192, 100000}'::bigint[]) pages, parvacuum_test_bitmap_bytes(pages) bytes, parvacuum_test_btree_bitmaps(bytes) bits;
SELECT pages, parvacuum_test_bitmap_bytes(pages) * 8 / 2 >= pages * 9 / 8 AS room
FROM unnest('{536870911, 536870912, 2147483648, 4294967294}'::bigint[]) pages;
