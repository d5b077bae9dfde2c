-- Invalid input is refused, and changes nothing.
\set VERBOSITY terse
SELECT parvacuum_test_create(1000, 1000000);

SELECT parvacuum_test_block(0, '{1}');
SELECT parvacuum_test_end();
SELECT parvacuum_test_begin(8);
SELECT parvacuum_test_begin(2);
SELECT parvacuum_test_begin(3);
SELECT parvacuum_test_reset();

-- offsets
SELECT parvacuum_test_block(256, '{}');
SELECT parvacuum_test_block(256, '{0}');
SELECT parvacuum_test_block(256, '{0,1}');
SELECT parvacuum_test_block(256, '{292}');
SELECT parvacuum_test_block(256, '{1,65535}');
SELECT parvacuum_test_block(256, '{2,1}');
SELECT parvacuum_test_block(256, '{2,2}');
SELECT parvacuum_test_block(256, '{1,3,2,4}');
SELECT parvacuum_test_block(256, ARRAY(SELECT i % 291 + 1 FROM generate_series(0, 291) i));

-- blocks
SELECT parvacuum_test_block(255, '{1}');
SELECT parvacuum_test_block(384, '{1}');
SELECT parvacuum_test_block(4294967295, '{1}');
SELECT parvacuum_test_block(300, '{291}');
SELECT parvacuum_test_block(300, '{1}');
SELECT parvacuum_test_block(299, '{1}');
SELECT parvacuum_test_end();
SELECT parvacuum_test_end();

-- beyond the end of the table, in its last segment
SELECT parvacuum_test_begin(7);
SELECT parvacuum_test_block(999, '{1,2}');
SELECT parvacuum_test_block(1000, '{1}');
SELECT parvacuum_test_end();

-- the same segment again
SELECT parvacuum_test_begin(2);
SELECT parvacuum_test_begin(7);

-- a segment without blocks can be begun again
SELECT parvacuum_test_begin(3);
SELECT parvacuum_test_end();
SELECT parvacuum_test_begin(3);
SELECT parvacuum_test_block(500, '{1}');
SELECT parvacuum_test_end();

SELECT parvacuum_test_check();
SELECT items FROM parvacuum_test_figures();

-- A segment that one participant has ended is visible to others when it is published;
-- two participants cannot store the same segment.
SELECT parvacuum_test_create(10000, 1000000, true, handles => 2);
SELECT parvacuum_test_begin(3, h) FROM generate_series(0, 1) h;
SELECT parvacuum_test_block(400, '{1,2}', 0);
SELECT parvacuum_test_block(401, '{3}', 1);
SELECT parvacuum_test_end(0);
SELECT parvacuum_test_layout(3, 0), parvacuum_test_layout(3, 1);
SELECT parvacuum_test_begin(3, 0);
SELECT parvacuum_test_publish(0);
SELECT parvacuum_test_layout(3, 0), parvacuum_test_layout(3, 1);
SELECT parvacuum_test_publish(0);
SELECT parvacuum_test_end(1);
SELECT parvacuum_test_publish(1);
