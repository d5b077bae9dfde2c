-- One balance of cost units for all, with a clock of the test in microseconds.
SELECT 1000000000000 AS now \gset

-- At 1000 units a second 100 units take a tenth of a second, minus the credit of a
-- moment: 50 milliseconds, also for a new balance.
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(100, 1000, :now) AS after_credit, parvacuum_test_charge(100, 1000, :now) AS second,
	parvacuum_test_charge(0, 1000, :now) AS none, parvacuum_test_account_units() AS units;

-- The passing of time counts, whichever process waits; to the end, and beyond.
SELECT t, parvacuum_test_charge(0, 1000, :now + t) AS wait FROM unnest('{1,50000,149999,150000,150001,200000}'::bigint[]) t;

-- Time slept too long is caught up with: after 10 ms too many, the next sleep is that
-- much shorter.
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(100, 1000, :now) AS wait, parvacuum_test_charge(100, 1000, :now + 60000) AS overslept,
	parvacuum_test_charge(100, 1000, :now + 150000) AS in_time;

-- Idle time is not saved up, however long it is.
SELECT parvacuum_test_account();
SELECT idle, parvacuum_test_charge(100, 1000, :now + 10 * idle) AS wait, parvacuum_test_charge(100, 1000, :now + 10 * idle) AS next
FROM unnest('{0,1000000,60000000,86400000000,31536000000000}'::bigint[]) idle;

-- A rate of 0 is no limit, and does not change the balance; units are counted.
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(1000, 1000, :now) AS limited, parvacuum_test_charge(1000000, 0, :now) AS unlimited,
	parvacuum_test_charge(1000000, -1, :now) AS negative, parvacuum_test_charge(0, 1000, :now) AS limited_again,
	parvacuum_test_account_units() AS units;

-- The rate changes: earlier units keep their cost.
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(1000, 1000, :now) AS at_1000, parvacuum_test_charge(1000, 10000, :now) AS at_10000, parvacuum_test_charge(1000, 100, :now) AS at_100;

-- When the rate is changed for all, the balance is slept off at the new rate from then
-- on: the same number of units in another time.
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(1000, 100, :now) AS owed, parvacuum_test_change_rate(100, 1000, :now), parvacuum_test_charge(0, 1000, :now) AS faster,
	parvacuum_test_change_rate(1000, 500, :now + 495000), parvacuum_test_charge(0, 500, :now + 495000) AS half_of_it_slower;
SELECT parvacuum_test_change_rate(500, 2000, :now + 2000000), parvacuum_test_charge(0, 2000, :now + 2000000) AS paid_before,
	parvacuum_test_charge(200, 2000, :now + 2000000) AS credit_as_ever;

-- Nothing is to be slept off where there is no limit, nor afterwards; and at the lowest
-- rate, no process sleeps for more than an hour.
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(1000, 100, :now) AS owed, parvacuum_test_change_rate(100, 0, :now), parvacuum_test_charge(0, 100, :now) AS none;
SELECT parvacuum_test_charge(1000, 100, :now) AS owed, parvacuum_test_change_rate(0, 100, :now), parvacuum_test_charge(0, 100, :now) AS none;
SELECT parvacuum_test_charge(2147483647, 2147483647, :now) AS owed, parvacuum_test_change_rate(2147483647, 1, :now),
	parvacuum_test_charge(0, 1, :now) AS an_hour;

-- Large numbers, small rates
SELECT parvacuum_test_account();
SELECT parvacuum_test_charge(2147483647, 2147483647, :now) AS second, parvacuum_test_charge(2147483647, 1, :now + 950000) / 1000000 AS seconds;
SELECT parvacuum_test_charge(2147483647, 2147483647, 9000000000000000000) AS far_in_the_future;

-- n processes share the rate that one process would have alone: in 100 seconds all of
-- them are charged what the rate allows, except for the credit and the last charges, and
-- all are charged nearly the same.  That holds for short work and long work, and for
-- sleeps that last longer than they should.  No process sleeps for more than one charge
-- of each.
CREATE FUNCTION shares(VARIADIC payers int[])
RETURNS TABLE (rate bigint, units bigint, work bigint, oversleep bigint, n int, exact boolean, fair boolean, bounded boolean)
LANGUAGE sql AS $$
	SELECT rate, units, work, oversleep, n, paid BETWEEN rate * 100 - n * units AND rate * 100.05 + n * units,
		highest - lowest <= highest / 1000 + units, longest <= n * units * 1000000 / rate
	FROM unnest(payers) n, (VALUES (8000::bigint, 40::bigint, 100, 0), (8000, 40, 4000, 100), (8000, 40, 10, 1000),
			(100000, 500, 1000, 3000), (1000000, 5000, 1, 60), (10, 40, 100, 0)) w(rate, units, work, oversleep),
		parvacuum_test_payers(n, rate, units, work, oversleep, 100)
	ORDER BY rate, units, work, n
$$;
SELECT * FROM shares(1, 2, 3, 10, 64);

-- Work that takes longer than its cost needs no sleep; two processes reach the rate.
SELECT n, round(100.0 * paid / (8000 * 100)) AS "percent", longest FROM unnest('{1,2,3,10}'::int[]) n, parvacuum_test_payers(n, 8000, 40, 10000, 0, 100);

-- Several processes charge at the same time and nothing is lost, while the clock stands
-- still: each charge moves the balance by its cost.
SELECT workers, parvacuum_test_charge_together(workers, 100000, 7, 1000000) AS moved FROM unnest('{0,1,3}'::int[]) workers;
