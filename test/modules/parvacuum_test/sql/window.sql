-- Windows of time: which texts are valid, and when a window is open.
SET datestyle = 'iso, mdy';
SET timezone = 'UTC';

-- the normal form
SELECT text, parvacuum_test_window(text) AS normal FROM unnest(ARRAY[
	'', '  ', 'never', ' NEVER ', '22:00-06:00', '6:00-7:30', '  6:00  -  7:30  ',
	'00:00-24:00', '00:00-00:00', '22:00-24:00', '22:00-00:00', '22:00-22:00', '23:59-0:01',
	'Mon 01:00-02:00', 'mOnDaY 01:00-02:00', 'SUN 01:00-02:00', 'Mon-Fri 01:00-02:00', 'Fri-Mon 01:00-02:00',
	'wednesday - SATURDAY 1:00-2:00', 'Sun-Sat 01:00-02:00', 'Wed-Tue 01:00-02:00', 'Tue-Tue 01:00-02:00',
	'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin',
	'Mon-Fri 22:00-06:00,Sat-Sun 00:00-24:00	europe/BERLIN ', '01:00-02:00 , 03:00-04:00',
	'01:00-02:00 UTC', '01:00-02:00 America/Port-au-Prince', '01:00-02:00 Etc/GMT+5', '01:00-02:00 est5EDT'])
	text;

-- as many spans as are possible, and one more
SELECT n, length(normal), right(normal, 40) AS "right" FROM unnest(ARRAY[15, 16]) n,
	LATERAL (SELECT parvacuum_test_window(repeat('Monday-Tuesday 1:00-2:00, ', n) || 'Sun 22:00-06:00 UTC') AS normal) w;

-- every day, by both of its names
SELECT day, parvacuum_test_window(left(day, 3) || ' 01:00-02:00') AS short, parvacuum_test_window(day || ' 01:00-02:00') AS long
FROM unnest(ARRAY['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday']) day;

-- invalid windows
SELECT text, parvacuum_test_window(text) AS complaint FROM unnest(ARRAY[
	'always', 'no', 'never 01:00-02:00', 'never UTC', 'nevermore', 'never, 01:00-02:00', ',', '-',
	'Mo 01:00-02:00', 'Mond 01:00-02:00', 'Mondays 01:00-02:00', 'Montag 01:00-02:00', 'Mon-F 01:00-02:00',
	'Mon- 01:00-02:00', '-Fri 01:00-02:00', 'Mon-Wed-Fri 01:00-02:00', 'Mon,Tue 01:00-02:00', 'Mon Tue 01:00-02:00',
	'1 01:00-02:00', 'Mon', 'Mon-Fri', 'Europe/Berlin', 'UTC',
	'01:00', '01:00-', '-02:00', '01:00 02:00', '01:00-02:00-03:00', '01:00--02:00',
	'1-2', '01-02', '0100-0200', '01:0-02:00', '01:000-02:00', '001:00-02:00', ':00-02:00', '01.00-02.00',
	'01:00:00-02:00:00', '1:00am-2:00am', '01:00-02:00 pm',
	'24:00-06:00', '24:01-06:00', '25:00-06:00', '23:60-06:00', '99:99-06:00', '22:00-24:01', '22:00-25:00',
	'22:00-23:60', '+1:00-02:00', '01:00-+2:00',
	'01:00-02:00,', '01:00-02:00,,03:00-04:00', ',01:00-02:00', '01:00-02:00; 03:00-04:00',
	'01:00-02:00 03:00-04:00', '01:00-02:00 Sat 03:00-04:00', '01:00-02:00 Sat 3', '01:00-02:00 Sat',
	'01:00-02:00 Berlin', '01:00-02:00 Europe', '01:00-02:00 Europe/', '01:00-02:00 Europe/Nowhere',
	'01:00-02:00 Europe/Berlin, 03:00-04:00', '01:00-02:00 Europe/Berlin UTC', '01:00-02:00 "UTC"',
	'01:00-02:00 +2', '01:00-02:00 <+02>-2', '01:00-02:00 utc+3', '01:00-02:00 Foo4Bar', '01:00-02:00 Etc//GMT+5', '01:00-02:00 ../UTC', '01:00-02:00 /UTC', '01:00-02:00 right/UTC',
	'Europe/Berlin 01:00-02:00']) text;
SELECT parvacuum_test_window('01:00–02:00') = 'A hyphen is expected at "–02:00".' AS long_dash,
	parvacuum_test_window('é 01:00-02:00') = 'A time from 00:00 to 23:59 is expected at "é 01:00-02:00".' AS no_letter,
	parvacuum_test_window('01:00-02:00 UTCé') = 'A comma or the name of a time zone is expected at "UTCé".' AS no_zone;
SELECT length(parvacuum_test_window('01:00-02:00 ' || repeat('x', n))) FROM unnest(ARRAY[255, 256, 100000]) n;

-- For each time of a list, in the time zone of the session: is the window open, and when
-- does that change?
CREATE FUNCTION at_times(win text, VARIADIC times timestamptz[])
RETURNS TABLE (at text, open boolean, until text) LANGUAGE sql AS $$
	SELECT to_char(t, 'Dy YYYY-MM-DD HH24:MI:SS TZ'), parvacuum_test_window_is_open(win, t),
		to_char(parvacuum_test_window_next_change(win, t), 'Dy YYYY-MM-DD HH24:MI:SS TZ')
	FROM unnest(times) t
$$;

-- always, never, and other spellings of these
SELECT text, a.* FROM unnest(ARRAY['', 'never', '00:00-24:00 UTC', 'Mon-Fri 00:00-24:00, Sat-Sun 00:00-24:00 Europe/Berlin',
	'12:00-12:00 UTC', '00:00-12:00, 12:00-00:00 UTC']) text, at_times(text, '2026-01-01 12:00', 'infinity', '-infinity') a;

-- open at the beginning, and not at the end; 2026-01-05 is a Monday
SELECT * FROM at_times('08:00-17:30 UTC', '2026-01-05 00:00', '2026-01-05 07:59:59', '2026-01-05 08:00',
	'2026-01-05 17:29:59', '2026-01-05 17:30', '2026-01-05 23:59:59');
SELECT * FROM at_times('Tue 08:00-08:01 UTC', '2026-01-05 08:00', '2026-01-06 07:59', '2026-01-06 08:00:30',
	'2026-01-06 08:01');

-- over midnight: the night belongs to the day on which it begins
SELECT * FROM at_times('Mon-Fri 22:00-06:00 UTC', '2026-01-05 05:59', '2026-01-05 22:00', '2026-01-06 05:59',
	'2026-01-06 06:00', '2026-01-09 22:00', '2026-01-10 05:59', '2026-01-10 06:00', '2026-01-10 22:00');
SELECT * FROM at_times('Wed 12:00-12:00 UTC', '2026-01-07 11:59', '2026-01-07 12:00', '2026-01-08 11:59', '2026-01-08 12:00');

-- over the end of the week, both as it is stored and as people count it
SELECT * FROM at_times('Sat 23:00-01:00 UTC', '2026-01-10 22:59', '2026-01-10 23:00', '2026-01-11 00:59', '2026-01-11 01:00');
SELECT * FROM at_times('Sun 23:00-01:00 UTC', '2026-01-11 22:59', '2026-01-11 23:00', '2026-01-12 00:59', '2026-01-12 01:00');
SELECT * FROM at_times('Fri-Mon 20:00-04:00 UTC', '2026-01-09 03:59', '2026-01-09 20:00', '2026-01-10 12:00',
	'2026-01-10 21:00', '2026-01-12 03:59', '2026-01-12 20:00', '2026-01-13 03:59', '2026-01-13 04:00', '2026-01-13 20:00');

-- whole days, and spans that touch or overlap
SELECT * FROM at_times('Sat-Sun 00:00-24:00 UTC', '2026-01-09 23:59:59', '2026-01-10 00:00', '2026-01-11 23:59:59', '2026-01-12 00:00');
SELECT * FROM at_times('Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 UTC', '2026-01-08 23:00', '2026-01-09 21:59',
	'2026-01-09 22:00', '2026-01-11 23:59', '2026-01-12 00:00');
SELECT * FROM at_times('Mon 08:00-12:00, Mon 10:00-14:00, Mon 14:00-15:00 UTC', '2026-01-05 08:00', '2026-01-05 14:00',
	'2026-01-05 15:00');

-- time zones: that of the window, not that of the session; without one that of the log
SELECT * FROM at_times('22:00-06:00 Europe/Berlin', '2026-01-05 20:59 UTC', '2026-01-05 21:00 UTC', '2026-01-06 04:59 UTC',
	'2026-01-06 05:00 UTC');
SELECT * FROM at_times('Mon 22:00-23:00 America/New_York', '2026-01-06 02:59 UTC', '2026-01-06 03:00 UTC', '2026-01-06 04:00 UTC');
SELECT * FROM at_times('Tue 00:00-01:00 Pacific/Auckland', '2026-01-05 10:59 UTC', '2026-01-05 11:00 UTC', '2026-01-05 12:00 UTC');
SELECT * FROM at_times('06:00-07:00 Asia/Kathmandu', '2026-01-05 00:14:59 UTC', '2026-01-05 00:15 UTC', '2026-01-05 01:15 UTC');
SET timezone = 'America/New_York';
SELECT * FROM at_times('22:00-06:00 Europe/Berlin', '2026-01-05 15:59', '2026-01-05 16:00');
SELECT current_setting('log_timezone') AS zone \gset
SELECT count(*) AS differ FROM generate_series('2026-03-01'::timestamptz, '2026-03-31', '17 minutes') t
WHERE parvacuum_test_window_is_open('Mon-Fri 22:00-06:00', t) <> parvacuum_test_window_is_open('Mon-Fri 22:00-06:00 ' || :'zone', t);

-- the clock is put forward, 02:00 to 03:00 on Sunday 2026-03-29
SET timezone = 'Europe/Berlin';
SELECT * FROM at_times('Sat 22:00-06:00 Europe/Berlin', '2026-03-28 22:00', '2026-03-29 01:59:59', '2026-03-29 03:00', '2026-03-29 06:00');
SELECT * FROM at_times('02:30-05:00 Europe/Berlin', '2026-03-28 05:00', '2026-03-29 01:59:59', '2026-03-29 03:00', '2026-03-29 05:00');
SELECT * FROM at_times('01:00-02:30 Europe/Berlin', '2026-03-29 01:00', '2026-03-29 01:59:59', '2026-03-29 03:00');
SELECT * FROM at_times('Sun 02:00-03:00 Europe/Berlin', '2026-03-22 02:59', '2026-03-22 03:00', '2026-03-29 01:59:59', '2026-03-29 03:00');
SELECT * FROM at_times('Sun 00:00-24:00 Europe/Berlin', '2026-03-28 23:59:59', '2026-03-29 00:00');

-- the clock is put back, 03:00 to 02:00 on Sunday 2026-10-25
SELECT * FROM at_times('Sat 22:00-06:00 Europe/Berlin', '2026-10-24 22:00', '2026-10-25 06:00');
SELECT * FROM at_times('02:00-03:00 Europe/Berlin', '2026-10-25 01:59', '2026-10-25 00:00 UTC', '2026-10-25 00:59:59 UTC',
	'2026-10-25 01:00 UTC', '2026-10-25 02:00 UTC');
SELECT * FROM at_times('22:00-02:30 Europe/Berlin', '2026-10-25 00:00', '2026-10-25 00:30 UTC', '2026-10-25 01:00 UTC', '2026-10-25 01:30 UTC');
SELECT * FROM at_times('02:30-04:00 Europe/Berlin', '2026-10-25 00:00', '2026-10-25 00:30 UTC', '2026-10-25 01:00 UTC', '2026-10-25 01:30 UTC');
SELECT * FROM at_times('Sun 00:00-24:00 Europe/Berlin', '2026-10-25 00:00', '2026-10-26 00:00');

-- a day that was left out, and clocks that were not set to whole minutes
SET timezone = 'UTC';
SELECT * FROM at_times('Fri 00:00-24:00 Pacific/Apia', '2011-12-24 09:59 UTC', '2011-12-24 10:00 UTC', '2011-12-30 09:59 UTC');
SELECT * FROM at_times('12:00-13:00 Europe/Berlin', '1880-01-01 00:00 UTC');

-- The change is the first minute in which the window is open and was not before, or the
-- other way round; compared minute by minute around both changes of the clock.
SELECT win, count(*) AS changes, count(*) FILTER (WHERE at IS DISTINCT FROM foretold) AS wrong
FROM unnest(ARRAY['22:00-06:00', 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00', '01:30-02:30', '02:30-03:30', '02:00-03:00',
		'Sun 02:15-02:16', '00:00-02:00, 03:00-04:00', 'Fri-Mon 23:30-02:45', 'Sat 03:00-03:00', '12:00-12:01']) win,
	LATERAL (SELECT t AS at, lag(t, 1) OVER w AS earlier,
			parvacuum_test_window_next_change(win || ' Europe/Berlin', lag(t, 1) OVER w) AS foretold
		FROM (SELECT t, open, lag(open) OVER (ORDER BY t) AS was
			FROM (SELECT t, parvacuum_test_window_is_open(win || ' Europe/Berlin', t) AS open
				FROM unnest(ARRAY['2026-03-15'::timestamptz, '2026-10-11']) first,
					generate_series(first, first + '21 days', '1 minute') t) m) s
		WHERE open <> was WINDOW w AS (ORDER BY t)) c
WHERE date_trunc('year', at) = date_trunc('year', earlier) AND at - earlier < '21 days'
GROUP BY win ORDER BY win COLLATE "C";
