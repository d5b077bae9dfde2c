-- The bitmaps of an index's pages: each bit is found again, in its own bitmap, for indexes of
-- all lengths around that of a word.  Pages beyond the bitmaps share bits with others.
SELECT count(*), min(bits), max(bits), count(DISTINCT bits % 32) AS ends_in_a_word
FROM generate_series(0, 100) pages, parvacuum_test_btree_bitmaps(pages) bits;
SELECT pages, parvacuum_test_btree_bitmaps(pages) FROM unnest('{8191, 8192, 100000}'::bigint[]) pages;

-- They have room for all of their bits.
SELECT parvacuum_test_bitmap_room() >= 0 AS room;
