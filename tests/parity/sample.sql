SELECT * FROM VALUES
  (1, 7, 70000000000L, 2.5D, CAST(1.25 AS FLOAT), CAST(12.34 AS DECIMAL(10,2)), 'Hello World', true, DATE'2013-01-05',
   TIMESTAMP'2013-01-05 13:45:30.125', array(3, 1, 2), array('b', NULL, 'a'), map('x', 1, 'y', 2), named_struct('x', 1, 'y', 'one'),
   '{"a": 1, "b": {"c": "deep"}, "l": [1, 2, 3], "t": true, "s": "text", "f": 1.50}', 3S),
  (2, -7, -3L, -2.5D, CAST(-0.5 AS FLOAT), CAST(-0.50 AS DECIMAL(10,2)), 'a,b,,c', false, DATE'2000-02-29',
   TIMESTAMP'1999-12-31 23:59:59', array(5), array('a', 'b', 'a'), map('y', -1), named_struct('x', -2, 'y', 'two'),
   '{"a": null, "l": []}', -4S),
  (3, 0, 0L, 1.0E10D, CAST(0 AS FLOAT), CAST(0.00 AS DECIMAL(10,2)), '', false, DATE'2024-12-31',
   TIMESTAMP'2024-12-31 00:00:00', CAST(array() AS ARRAY<INT>), CAST(array() AS ARRAY<STRING>), CAST(map() AS MAP<STRING,INT>),
   named_struct('x', CAST(NULL AS INT), 'y', CAST(NULL AS STRING)), 'not json', 0S),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (5, 123, 9007199254740993L, 0.1D, CAST(3.4 AS FLOAT), CAST(99999999.99 AS DECIMAL(10,2)), '  Ünï 42 ', true, DATE'1969-07-20',
   TIMESTAMP'1969-07-20 20:17:40.5', array(1, NULL, 1, 4), array('', 'zz'), map('k', NULL, 'x', 10), named_struct('x', 9, 'y', 'x y'),
   '{"a": "7", "b": {"c": 2}, "l": ["p", {"q": 1}]}', 100S)
  AS sample(id, i, l, d, f, m, s, b, dt, ts, a, w, p, st, j, h)
