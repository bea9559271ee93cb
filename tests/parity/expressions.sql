-- One expression or query a line. An expression runs as SELECT <expression> AS value FROM sample ORDER BY id.

-- literals and arithmetic
1
-5
2147483648
9223372036854775807
1L
1.5
0.001
100.00
1e3
1.5D
'text'
true
NULL
i + 1
h + 1
h + h
h * 2
l + i
i * 2
i - 0.5
l * 1.5
d * 1.5
d + i
f * 2
f + d
i / 2
l / 4
d / 3
1 / 3
m / 3
m * 2
m * m
m + 1
m - 0.005
m + i
m * 1.5
m / m
m / 3D
m * 2D
m % 3D
CAST(i AS DECIMAL(10, 2)) + 1F
m * f
m * (2)
m * -2L
CAST(1 AS DECIMAL(38, 0)) + 1
1.0 * i / 3
i % 3
l % 4
d % 2
-7 % 3
-i
-d
i / 0
i % 0
i div 2
l div 3
2147483647 + 1
i & 3
i | 8
i ^ 5
~i
shiftleft(i, 2)
shiftright(i, 1)
i > 1 AND b
b OR i IS NULL
NOT b
i <=> NULL
i = 7
i <> 7
i != 7
i BETWEEN -7 AND 7
s BETWEEN 'A' AND 'b'
s < 'b'
i IN (1, NULL)
d > i
NOT (i > 0 AND b)
b AND NULL
b OR NULL
1 = 1
'a' = 'A'
l = i
s = 7
X'4D41'
'it''s'
"double"
-i * -1
7 / 2
7 div 2
-7 div 2
7.0 / 2
1.5 + 1
10 % 3.5
1e2 + 1
2 + 3 * 4
(2 + 3) * 4
i * 1.0
d / 0.5
9223372036854775807 + 1
m / 7
m / m / 3
1 / 3.0
1.0 * l / 3
CAST(12345678901234567890 AS DECIMAL(20,0)) / 7
CAST('0.1234567890123456789012345678901234567' AS DECIMAL(38,37)) / 3
CAST(-2 AS DECIMAL(3,1)) / 3
CAST(2 AS DECIMAL(38,0)) / CAST(3 AS DECIMAL(38,30))
m / 0
NULL % 0
CAST(NULL AS INT) / 0
CAST(NULL AS DECIMAL(5,2)) / 0.0
IF(i > 0, 1, NULL) div 0
IF(i < 0, NULL, i) % IF(i < 0, 0, 5)
pmod(m, l + 5)
pmod(m, 3)
pmod(-7.5, 2)
mod(m, 3)
mod(i, 5L)
mod(d, 3)
try_divide(i, m)
try_divide(m, 0)
try_divide(f, 3)
try_add(m, 100)
try_add(f, 1.25)
try_subtract(h, 1)
try_multiply(m, 2)
try_add(h, 100000)
m div 3
7.5 div 2.5
-7.5 div 2
d div 2
'12' * 2.5
'12' + 1
'7' + '1'
'7' / 2
'12' % 5
s - 1
TIMESTAMP'2013-01-05 10:00:00'
DATE'2013-01-05'
INTERVAL 2 DAY + dt
try_divide(1, 2)
i IN (7, 0)
i NOT IN (7, 0)
s LIKE 'H%'
s ILIKE 'h%'
s RLIKE '[0-9]+'
s NOT LIKE '%o%'
s NOT LIKE '%\\_%'
s LIKE '%\\_%'
s NOT ILIKE 'h\\%%'
i IS NOT NULL
i IS DISTINCT FROM 7

-- numbers
abs(i)
abs(d)
abs(m)
ceil(d)
ceil(m)
ceil(i)
ceiling(d)
floor(d)
floor(m)
floor(i)
floor(1.5)
round(d)
round(d, 1)
floor(CAST('NaN' AS DOUBLE))
ceil(CAST('Infinity' AS DOUBLE))
floor(CAST('-Infinity' AS DOUBLE))
floor(CAST(NULL AS DOUBLE))
floor(ceil(m))
round(m, -1)
round(m, -2)
round(CAST(5 AS DECIMAL(1,0)), -3)
round(m)
round(m, 1)
round(i, -1)
round(2.5D)
round(-2.5D)
round(1.005D, 2)
round(i)
bround(2.5D)
bround(3.5D)
bround(d, 0)
bround(m, 1)
sign(d)
signum(i)
sqrt(abs(d))
sqrt(-1D)
cbrt(27D)
exp(1)
expm1(0.5D)
ln(2)
ln(0)
log(10)
log(2, 8)
log10(100)
log2(8)
log1p(1)
log1p(d)
pow(2, 3)
power(d, 2)
pmod(i, 3)
pmod(-7, 3)
pmod(d, 2)
pmod(-7L, 3)
mod(i, 3)
greatest(i, 5, 2)
greatest(d, i)
least(i, 5, 2)
least(s, 'b')
sin(1)
cos(0)
tan(1)
asin(1)
acos(1)
atan(1)
atan2(1, 2)
sinh(1)
cosh(1)
tanh(0.5D)
degrees(1)
radians(180)
pi()
e()
rand() < 1
random() >= 0
length(uuid())
hypot(3, 4)
width_bucket(d, 0, 10, 5)
isnan(d)
isnan(CAST('NaN' AS DOUBLE))
signum(CAST('NaN' AS DOUBLE))
nanvl(CAST('NaN' AS DOUBLE), 1D)
factorial(5)
negative(i)
positive(i)
bin(i)
hex(i)
hex(s)
unhex('4D')
try_divide(i, 0)
try_add(2147483647, 1)
try_add(1, 2)
try_subtract(i, 1)
try_multiply(l, 9223372036854775807)

-- casts
CAST(i AS STRING)
CAST(l AS STRING)
CAST(d AS STRING)
CAST(f AS STRING)
CAST(m AS STRING)
CAST(b AS STRING)
CAST(dt AS STRING)
CAST(ts AS STRING)
CAST(1.0E-5D AS STRING)
CAST(1.0E7D AS STRING)
CAST(123456789.125D AS STRING)
CAST(0.001D AS STRING)
CAST(100D AS STRING)
CAST(1.0E300D AS STRING)
CAST(CAST('NaN' AS DOUBLE) AS STRING)
CAST(CAST('Infinity' AS DOUBLE) AS STRING)
CAST(a AS STRING)
CAST(w AS STRING)
CAST(p AS STRING)
CAST(st AS STRING)
CAST('12' AS INT)
CAST(' 12 ' AS INT)
CAST('1.5' AS INT)
CAST('abc' AS INT)
CAST('1e3' AS DOUBLE)
CAST('abc' AS DOUBLE)
CAST('1.25' AS DECIMAL(5,2))
CAST(d AS INT)
CAST(-2.7D AS INT)
CAST(2.7D AS BIGINT)
CAST(m AS INT)
CAST(i AS DECIMAL)
CAST(array(2.5) AS ARRAY<DECIMAL>)
TRY_CAST('12' AS DECIMAL)
TRY_CAST(300 AS TINYINT)
TRY_CAST(7 AS DOUBLE)
CAST(d AS BIGINT)
CAST(3000000000L AS INT)
CAST(d AS DECIMAL(20,1))
CAST(2.55 AS DECIMAL(5,1))
CAST(i AS DOUBLE)
CAST(i AS FLOAT)
CAST(l AS DOUBLE)
CAST(i AS BOOLEAN)
CAST('true' AS BOOLEAN)
CAST('yes' AS BOOLEAN)
CAST('maybe' AS BOOLEAN)
CAST(b AS INT)
CAST(b AS DOUBLE)
CAST(i AS SMALLINT)
CAST(i AS TINYINT)
CAST('2013-01-05' AS DATE)
CAST('2013-01-05 10:00:00' AS DATE)
CAST('2013-1-5' AS DATE)
CAST('bad' AS DATE)
CAST('2013-01-05 10:11:12' AS TIMESTAMP)
CAST('2013-01-05T10:11:12.5Z' AS TIMESTAMP)
CAST(dt AS TIMESTAMP)
CAST(ts AS DATE)
CAST(ts AS BIGINT)
CAST(ts AS DOUBLE)
CAST(0 AS TIMESTAMP)
CAST(l AS INT)
CAST(s AS BINARY)
CAST(a AS ARRAY<STRING>)
CAST(a AS ARRAY<DOUBLE>)
TRY_CAST('abc' AS INT)
TRY_CAST('12' AS INT)
TRY_CAST('x' AS DOUBLE)
TRY_CAST('1.5' AS INT)
TRY_CAST('bad' AS DATE)
double(i)
int(d)
int(f)
string(i)
bigint(i)
boolean(i)
float(i)
date('2020-01-02')
timestamp('2020-01-02 03:04:05')
decimal(i)
smallint(i)
tinyint(3)
binary('a')
i::STRING
'7'::INT
CAST(d AS FLOAT)
CAST(NULL AS INT)
CAST(CAST(NULL AS INT) AS STRING)
CAST(1.5 AS STRING)
CAST('inf' AS DOUBLE)
CAST(0.1D + 0.2D AS STRING)
CAST(CAST(0.1 AS FLOAT) AS STRING)
CAST(-0.0D AS STRING)
CAST(1.0E-3D AS STRING)
CAST(9999999.0D AS STRING)
CAST(12345678.9D AS STRING)
TRY_CAST(s AS DATE)
TRY_CAST('2013-01-05 01:02:03' AS TIMESTAMP)
TRY_CAST('yes' AS BOOLEAN)
TRY_CAST(d AS INT)
TRY_CAST('9.5' AS DECIMAL(5,1))
CAST(0.25 AS STRING)
CAST(-0.25 AS STRING)
CAST(0.0 AS STRING)
CAST(CAST(-0.5 AS DECIMAL(38, 38)) AS STRING)
try_cast(0.5 AS STRING)
CAST(array(0.5, -0.25) AS STRING)
CAST(map(0.5, 0.25) AS STRING)
'p' || 0.5
concat('p', -0.5)
CAST(CAST(h / 1000.0 AS DECIMAL(3, 3)) AS STRING)

-- conditions and nulls
CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END
CASE i WHEN 7 THEN 1 END
CASE WHEN b THEN 1 ELSE 2.5 END
CASE WHEN b THEN i ELSE l END
IF(i > 0, i, 0)
IF(b, d, i)
iff(b, 1, 2)
coalesce(i, 0)
coalesce(i, l)
coalesce(d, i, 1)
coalesce(s, '?')
ifnull(i, -1)
nvl(s, 'none')
nvl2(i, 'some', 'none')
nullif(i, 7)
nullif(s, '')
isnull(i)
isnotnull(i)
zeroifnull(i)
nullifzero(i)
equal_null(i, 7)

-- values of several types
coalesce(h, 0)
coalesce(0.5, 'x')
coalesce(h, f)
coalesce(l, m)
coalesce(m, '1.5')
coalesce(dt, '2013-01-05')
coalesce(dt, ts)
coalesce(CAST(NULL AS INT), '12')
coalesce(b, 1)
nvl(h, 100)
IF(b, h, 7)
IF(id > 2, 'x', id)
IF(b, f, i)
CASE WHEN b THEN h WHEN i > 0 THEN 1 END
CASE WHEN b THEN 0.1 ELSE f END
CASE s WHEN 7 THEN 1 ELSE 2 END
CASE WHEN s = '' THEN '7' ELSE i END
nvl2(i, h, 100)
nullif(h, 3L)
nullif('7', i)
greatest(h, 10)
least(m, l)
array(h, -1)
array(f, 1)
map('a', h, 'b', 100000)
CAST(i AS STRING) = '07'
'07' = i
'7.0' = d
'2013-1-5' = dt
dt >= '2013-01-05'
ts BETWEEN '2013-01-05' AND '2013-01-06'
i BETWEEN '1' AND '10'
i IN ('07', 1)
CAST(id AS STRING) IN (1, 2)
i <=> '7'
i = b
dt = 7
b = 'true'
CAST(3.4 AS FLOAT) = 3.4
f > 3.4
f = 123456789
'9' < 10
'10' < '9'
SELECT id FROM sample UNION ALL SELECT '9' ORDER BY id
SELECT i FROM sample UNION ALL SELECT s FROM sample
SELECT 3.4F AS x UNION SELECT 16777217 ORDER BY x
SELECT 1.5 AS x, h FROM sample UNION ALL SELECT l, 7 FROM sample ORDER BY x, h
SELECT dt AS x FROM sample UNION SELECT ts FROM sample ORDER BY x
SELECT 1 AS x UNION ALL SELECT NULL UNION ALL SELECT 2L ORDER BY x
SELECT 7 INTERSECT SELECT '7'
SELECT b FROM sample EXCEPT SELECT i FROM sample
WITH t AS (SELECT 1 AS x) SELECT x FROM t UNION ALL (WITH u AS (SELECT '2' AS y) SELECT y FROM u) ORDER BY x

-- strings
concat(s, '!')
concat(s, i)
concat('a', 1, true)
concat_ws('-', s, 'x')
concat_ws('-', 'a', NULL, 'b')
concat_ws(',', w)
concat_ws(',', 'k', w)
s || '_' || i
length(s)
char_length(s)
character_length(s)
octet_length(s)
bit_length(s)
upper(s)
ucase(s)
lower(s)
lcase(s)
initcap(s)
trim(s)
ltrim(s)
rtrim(s)
btrim(s)
trim(BOTH 'H' FROM s)
trim(LEADING 'He' FROM s)
substring(s, 1, 3)
substring(s, -3)
substring(s, -3, 2)
substring(s, 0, 2)
substring(s FROM 2 FOR 3)
substr(s, 2)
substring_index('a.b.c', '.', 2)
substring_index('a.b.c', '.', -1)
substring_index(s, ' ', h)
substring_index('a b', ' ', i)
left(s, 2)
right(s, 2)
lpad(s, 5, '*')
rpad('a', 3, '-')
lpad(i, 4, 0)
repeat('ab', 2)
reverse(s)
replace(s, 'l', 'L')
replace('abcabc', 'b')
translate('AaBbCc', 'abc', '123')
regexp_replace(s, '[aeiou]', '*')
regexp_replace('a1b22', '([a-z])([0-9]+)', '$2$1')
regexp_extract('foo-123-bar', '([a-z]+)-([0-9]+)', 2)
regexp_extract('foo-123', '([a-z]+)')
regexp_extract('nothing', '([0-9]+)', 1)
regexp_extract_all('a1b22', '[0-9]+', 0)
regexp_extract_all(s, '[a-z]', 0)
regexp_extract_all(s, '([A-Z])')
regexp_count(s, '[a-z]')
regexp_extract_all('a1b22', '([a-z])([0-9]+)', 2)
regexp_like(s, 'o')
regexp(s, 'o')
rlike(s, '[A-Z]')
s REGEXP 'l+'
regexp_count('a1b22', '[0-9]')
split(s, ',')
split(s, ' ')
split('a.b.c', '[.]')
split('oneAtwoBthree', '[AB]')
split('a,b,c', ',', 2)
split(s, 'o', 2)
split('a,b,,', ',')
split(s, ',')[0]
split('abc', '')
split_part('a.b.c', '.', 2)
split_part('a.b.c', '.', -1)
split_part('a.b.c', '.', 9)
instr(s, 'o')
locate('o', s)
locate('o', s, 6)
locate('', s, 3)
locate('o', s, i)
position('o' IN s)
position('l', 'hello')
startswith(s, 'H')
endswith(s, 'd')
contains(s, 'lo')
ascii(s)
chr(65)
char(66)
md5(s)
sha1(s)
sha('abc')
sha2(s, 256)
base64(CAST('abc' AS BINARY))
unbase64('YWJj')
encode('abc', 'UTF-8')
decode(CAST('abc' AS BINARY), 'UTF-8')
format_number(1234567.891D, 2)
format_string('%s-%d', 'a', id)
printf('%05d', id)
levenshtein('kitten', 'sitting')
find_in_set('b', 'a,b,c')
find_in_set(s, 'a,b')
find_in_set('a', s)
space(3)
url_encode('a b&c')
url_decode('a+b%26c')
overlay('Spark SQL' PLACING '_' FROM 6)
str_to_map('a:1,b:2')
length(0.5)
upper(-0.5)
format_string('%.2f|%e|%s', coalesce(d, 0D), 1.5F, d)
printf('%s %5.1f %%', b, 1.5D)
format_string('%s', 0.5)
format_string('%2$s %1$s', i, s)

-- hashes
xxhash64(s)
xxhash64(i)
xxhash64(l)
xxhash64(b)
xxhash64(dt)
xxhash64(d)
xxhash64(f)
xxhash64(ts)
xxhash64(NULL)
xxhash64('slot', s)
xxhash64('slot', CAST(i AS STRING))
xxhash64(i, s, d)
xxhash64(-0.0D)
xxhash64(h)
xxhash64('r', CAST(0.5 AS STRING))
xxhash64(0.5)

-- dates and times
year(dt)
month(dt)
day(dt)
dayofmonth(dt)
dayofweek(dt)
weekday(dt)
dayofyear(dt)
weekofyear(dt)
quarter(dt)
hour(ts)
minute(ts)
second(ts)
extract(YEAR FROM dt)
extract(DOW FROM dt)
extract(HOUR FROM ts)
extract(SECOND FROM ts)
date_part('month', dt)
datepart('year', dt)
date_add(dt, 3)
date_sub(dt, 3)
dateadd(dt, 1)
dateadd(DAY, 2, dt)
dateadd(MONTH, 1, ts)
datediff(dt, DATE'2013-01-01')
date_diff(dt, DATE'2013-01-01')
datediff(MONTH, DATE'2013-01-01', dt)
timestampdiff(HOUR, TIMESTAMP'2013-01-01 00:00:00', ts)
timestampadd(HOUR, 3, ts)
add_months(dt, 1)
add_months(DATE'2013-01-31', 1)
months_between(dt, DATE'2013-01-01')
months_between(ts, TIMESTAMP'2013-01-01 00:00:00')
last_day(dt)
next_day(dt, 'Mon')
trunc(dt, 'month')
trunc(dt, 'YEAR')
trunc(dt, 'week')
date_trunc('hour', ts)
date_trunc('day', ts)
date_trunc('MONTH', dt)
date_trunc('week', ts)
date_format(dt, 'yyyy-MM-dd')
date_format(ts, 'yyyyMMdd')
date_format(ts, 'HH:mm:ss')
date_format(ts, 'E')
date_format(ts, 'EEEE')
date_format(ts, 'MMM d, y')
date_format(ts, 'MMMM')
date_format(ts, 'yy/M/d H:m:s')
date_format(ts, 'hh:mm a')
date_format(ts, 'yyyy-MM-dd\'T\'HH:mm:ss.SSS')
date_format(ts, 'D')
date_format(ts, 'u')
to_date('2013-01-05')
to_date('05/01/2013', 'dd/MM/yyyy')
to_date('20130105', 'yyyyMMdd')
to_date('bad')
to_date(ts)
to_timestamp('2013-01-05 10:11:12')
to_timestamp('05/01/2013 10:11', 'dd/MM/yyyy HH:mm')
to_timestamp(dt)
current_date() IS NOT NULL
curdate() = current_date
now() IS NOT NULL
current_timestamp() IS NOT NULL
unix_timestamp(ts)
unix_timestamp(dt)
unix_timestamp('2013-01-05 10:11:12')
unix_timestamp('05/01/2013', 'dd/MM/yyyy')
to_unix_timestamp('2013-01-05', 'yyyy-MM-dd')
from_unixtime(1357380672)
from_unixtime(id * 86400)
from_unixtime(0, 'yyyy-MM-dd')
from_unixtime(h, 'yyyy-MM-dd')
from_unixtime(i * 86400.5D, 'yyyy-MM-dd')
timestamp_seconds(1357380672)
timestamp_millis(1357380672125)
timestamp_micros(1357380672125000)
unix_seconds(ts)
unix_millis(ts)
unix_micros(ts)
unix_date(dt)
date_from_unix_date(15000)
make_date(2013, 1, 5)
make_date(2013, 2, 30)
make_timestamp(2013, 1, 5, 10, 11, 12.5)
from_utc_timestamp(ts, 'America/New_York')
to_utc_timestamp(ts, 'America/New_York')
dt + 1
dt - 1
dt + INTERVAL 1 DAY
dt + INTERVAL 1 MONTH
ts + INTERVAL 2 HOURS
ts - INTERVAL 1 DAY
ts + INTERVAL '1' HOUR
dt < DATE'2013-06-01'
ts >= TIMESTAMP'2013-01-01 00:00:00'
dayname(dt)
monthname(dt)
unix_timestamp() > 1700000000

-- arrays
array(1, 2, 3)
array(i, 1)
array('a', NULL)
array(1, 2.5)
size(a)
size(NULL)
size(p)
cardinality(a)
array_size(a)
a[0]
array(1, 2)[5]
get(a, 0)
get(a, 9)
element_at(array(1, 2), -1)
element_at(array(1, 2), 1)
element_at(array(1, 2), 3)
try_element_at(a, 3)
array_contains(a, 1)
array_contains(w, 'a')
array_position(a, 1)
array_distinct(a)
array_remove(a, 1)
array_remove(a, CAST(NULL AS INT))
array_sort(a)
sort_array(a)
sort_array(a, false)
sort_array(w)
array_min(a)
array_max(a)
array_join(w, '-')
array_join(w, '-', '?')
array_union(a, array(9))
array_intersect(a, array(1, 2))
array_except(a, array(1))
array_repeat('x', 3)
array_repeat(s, i)
array_repeat(a, -1)
array_append(a, 8)
array_prepend(a, 8)
array_insert(array(1, 2), 1, 9)
array_insert(a, 3, 9)
array_insert(a, 1, i)
array_compact(a)
arrays_overlap(a, array(1, 5))
arrays_zip(array(1, 2), array('a', 'b'))
arrays_zip(a, w)
slice(a, 1, 2)
slice(a, -1, 1)
sequence(1, 5)
sequence(5, 1, -2)
sequence(DATE'2013-01-01', DATE'2013-01-03')
sequence(DATE'2013-01-01', DATE'2013-03-01', INTERVAL 1 MONTH)
flatten(array(array(1, 2), array(3)))
reverse(a)
concat(a, array(9))
transform(a, x -> x + 1)
transform(a, (x, k) -> x * k)
transform(w, x -> concat(x, '!'))
transform(a, k -> array_repeat(k + 1, 2))
transform(a, e -> array_remove(a, e))
transform(array(1, 2), entry -> transform_values(p, (k, v) -> v + entry))
transform_values(map('a', 1), (k, v) -> transform_values(map('b', 20), (l, w) -> w + v))
transform(array(1, 2), p -> array_distinct(array(p, p, 3)))
filter(a, x -> x > 1)
exists(a, x -> x = 3)
exists(a, x -> x > 100)
forall(a, x -> x > 0)
aggregate(array(1, 2, 3), 0, (acc, x) -> acc + x)
aggregate(array(1, 2, 3), 0, (acc, x) -> acc + x, acc -> acc * 10)
reduce(array(1, 2, 3), 10, (acc, x) -> acc + x)
zip_with(array(1, 2), array(3, 4), (x, y) -> x + y)
zip_with(a, array(3, 4, 5), (x, y) -> x + y)
size(filter(w, x -> x IS NOT NULL))
size(split(s, ','))
array_join(array(0.5, NULL, 0.25), ',')
array_join(array(1.0E10D, NULL), ',', 'n')

-- maps and structs
map('a', 1, 'b', 2)
map_keys(p)
map_values(p)
map_entries(p)
map_from_arrays(array('a', 'b'), array(1, 2))
map_from_entries(array(struct('a', 1), struct('b', 2)))
map_contains_key(p, 'x')
map_concat(map('a', 1), map('b', 2))
map_concat(p, map('b', 2))
map_filter(p, (k, v) -> v > 1)
transform_values(p, (k, v) -> v * 2)
transform_keys(map('a', 1), (k, v) -> upper(k))
p['x']
element_at(p, 'x')
p['none']
st.x
st.y
struct(i, s)
named_struct('a', i, 'b', s)
struct(i AS a, s AS b).b

-- JSON
get_json_object(j, '$.a')
get_json_object(j, '$.b.c')
get_json_object(j, '$.b')
get_json_object(j, '$.l[0]')
get_json_object(j, '$.l')
get_json_object(j, '$.t')
get_json_object(j, '$.f')
get_json_object(j, '$.none')
json_array_length('[1,2,3]')
json_object_keys('{"a":1,"b":2}')
to_json(named_struct('a', 1, 'b', 'x'))
to_json(p)
from_json('{"a":1,"b":"x"}', 'a INT, b STRING')
from_json('{"a":1}', 'a INT, b STRING').b
from_json('[1,2]', 'ARRAY<INT>')
from_json('{"k":2}', 'MAP<STRING,INT>')

-- aggregates
SELECT count(*), count(i), count(DISTINCT b), count(1) FROM sample
SELECT sum(i), sum(l), sum(d), sum(m), sum(h) FROM sample
SELECT avg(i), avg(d), avg(m), mean(i) FROM sample
SELECT min(i), max(d), min(s), max(dt), min(ts), max(b) FROM sample
SELECT sum(i) FROM sample WHERE i > 1000
SELECT stddev(i), stddev_samp(i), stddev_pop(i), std(i), variance(i), var_samp(i), var_pop(i) FROM sample
SELECT stddev(i), variance(i) FROM sample WHERE id = 1
SELECT corr(i, id), covar_pop(i, id), covar_samp(i, id) FROM sample
SELECT corr(i, id), covar_pop(i, id), covar_samp(i, id), regr_slope(i, id), regr_intercept(i, id), regr_r2(i, id) FROM sample WHERE id = 1
SELECT corr(i, 1), regr_slope(i, 1), regr_intercept(i, 1), regr_r2(i, 1), regr_r2(1, i) FROM sample
SELECT sum(CAST(m AS DECIMAL(38, 2))), avg(CAST(m AS DECIMAL(38, 2))), sum(CAST(m AS DECIMAL(30, 10))) FROM sample
SELECT kurtosis(id) FROM sample
SELECT percentile(i, 0.5), median(i), percentile(i, array(0.25, 0.75)) FROM sample
SELECT percentile_approx(i, 0.5), approx_percentile(i, 0.5) FROM sample
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FROM sample
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FROM sample
SELECT mode(x) FROM VALUES (1), (2), (2), (NULL) AS t(x)
SELECT approx_count_distinct(i) FROM sample
SELECT bool_and(b), bool_or(b), every(b), some(b), any(b) FROM sample
SELECT count_if(i > 0), sum(CASE WHEN b THEN 1 ELSE 0 END) FROM sample
SELECT sum(b) FROM sample
SELECT count_if(b) FROM sample WHERE id = 4
SELECT id, count_if(b) OVER (PARTITION BY id) FROM sample ORDER BY id
SELECT count_if(i > 0) FILTER (WHERE b IS NULL) FROM sample
SELECT sum(m) * 1.0 / count(*), sum(m) / sum(i) FROM sample
SELECT max_by(s, id), min_by(s, id) FROM sample
SELECT any_value(i) FROM sample WHERE id = 1
SELECT first(i), last(i), first_value(i), last_value(s, true) FROM (SELECT * FROM sample ORDER BY id)
SELECT collect_list(i) FROM (SELECT * FROM sample ORDER BY id)
SELECT array_sort(collect_list(b)) FROM sample
SELECT sort_array(collect_set(b)) FROM sample
SELECT array_sort(array_agg(i)) FROM sample
SELECT collect_list(s) FILTER (WHERE id < 3) FROM sample
SELECT collect_list(i) FROM sample WHERE id = 4
SELECT b, count(*) AS n, sum(i) FROM sample GROUP BY b ORDER BY b
SELECT b, avg(d) FROM sample GROUP BY b HAVING count(*) > 1 ORDER BY b
SELECT b, count(*) FROM sample GROUP BY ALL ORDER BY ALL
SELECT b, id % 2 AS odd, count(*) FROM sample GROUP BY b, odd ORDER BY b, odd
SELECT b, id % 2, count(*), grouping(b) FROM sample GROUP BY b, id % 2 WITH ROLLUP ORDER BY 1, 2, 3, 4
SELECT b, count(*) FROM sample GROUP BY GROUPING SETS ((b), ()) ORDER BY b, 2
SELECT sum(i) + 1, sum(i) / count(*), sum(m) / 3, sum(i) % 10 FROM sample
SELECT bit_and(i), bit_or(i), bit_xor(i) FROM sample WHERE id < 3
SELECT sum(DISTINCT id % 2), count(DISTINCT id % 2, b) FROM sample
SELECT regr_slope(i, id), regr_intercept(i, id), regr_r2(i, id), regr_count(i, id) FROM sample
SELECT listagg(s, ',') WITHIN GROUP (ORDER BY id) FROM sample WHERE id < 3
SELECT string_agg(s, '|') WITHIN GROUP (ORDER BY id DESC) FROM sample WHERE id < 3
SELECT product(id) FROM sample

-- windows
SELECT id, row_number() OVER (ORDER BY id DESC) FROM sample ORDER BY id
SELECT id, rank() OVER (ORDER BY b), dense_rank() OVER (ORDER BY b), percent_rank() OVER (ORDER BY b), cume_dist() OVER (ORDER BY b) FROM sample ORDER BY id
SELECT id, ntile(2) OVER (ORDER BY id) FROM sample ORDER BY id
SELECT id, lag(i) OVER (ORDER BY id), lead(i) OVER (ORDER BY id), lag(i, 2, 0) OVER (ORDER BY id) FROM sample ORDER BY id
SELECT id, sum(i) OVER (ORDER BY id) FROM sample ORDER BY id
SELECT id, sum(i) OVER (PARTITION BY b ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) FROM sample ORDER BY id
SELECT id, avg(d) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sample ORDER BY id
SELECT id, count(*) OVER (PARTITION BY b) FROM sample ORDER BY id
SELECT id, first_value(i) OVER (PARTITION BY b ORDER BY id), last_value(i) OVER (PARTITION BY b ORDER BY id), nth_value(i, 2) OVER (ORDER BY id) FROM sample ORDER BY id
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sample ORDER BY id
SELECT id, count(*) OVER w FROM sample WINDOW w AS (PARTITION BY b ORDER BY id) ORDER BY id
SELECT id, collect_list(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sample ORDER BY id
SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY b ORDER BY id) AS r FROM sample) WHERE r = 1 ORDER BY id
SELECT id, b FROM sample QUALIFY row_number() OVER (PARTITION BY b ORDER BY id) = 1 ORDER BY id

-- relations
SELECT i FROM sample ORDER BY i
SELECT i FROM sample ORDER BY i DESC
SELECT i FROM sample ORDER BY i NULLS LAST
SELECT s FROM sample ORDER BY s
SELECT DISTINCT b FROM sample ORDER BY b
SELECT id FROM range(3) ORDER BY id
SELECT id * 2 FROM range(1, 10, 3) ORDER BY id
SELECT id, e FROM sample LATERAL VIEW explode(a) t AS e ORDER BY id, e
SELECT id, e FROM sample LATERAL VIEW OUTER explode(a) t AS e ORDER BY id, e
SELECT id, k, e FROM sample LATERAL VIEW posexplode(a) t AS k, e ORDER BY id, k
SELECT id, k, v FROM sample LATERAL VIEW explode(p) t AS k, v ORDER BY id, k
SELECT id, explode(a) AS e FROM sample ORDER BY id, e
SELECT id, explode_outer(a) AS e FROM sample ORDER BY id, e
SELECT id, posexplode(a) FROM sample ORDER BY id, pos
SELECT id, explode(split(s, ',')) AS e FROM sample ORDER BY id, e
SELECT id, explode(p) FROM sample ORDER BY id, key
SELECT id, e FROM sample, LATERAL explode(a) AS t(e) ORDER BY id, e
SELECT e FROM explode(array(1, 2)) AS t(e)
SELECT id, x, y FROM sample LATERAL VIEW json_tuple(j, 'a', 't') t AS x, y ORDER BY id
SELECT json_tuple('{"a": 1, "b": "z"}', 'a', 'b', 'c')
SELECT * FROM (SELECT stack(2, 'a', 1, 'b', 2) AS (k, v)) ORDER BY k
SELECT inline(array(struct(1, 'a'), struct(2, 'b')))
SELECT id, posexplode_outer(a) AS (k, e) FROM sample ORDER BY id, k
SELECT id, inline_outer(CASE WHEN id = 1 THEN array(struct(1 AS x, 'a' AS y)) END) FROM sample ORDER BY id
SELECT b, sum(i) FROM sample GROUP BY CUBE (b) ORDER BY b, 2
SELECT b, id % 2 AS odd, count(*) FROM sample GROUP BY ROLLUP (b, id % 2) ORDER BY 1, 2, 3
SELECT id, explode(transform(a, x -> x * 2)) AS e FROM sample WHERE id < 3 ORDER BY id, e
SELECT t.id, c.e FROM sample AS t LATERAL VIEW explode(t.a) c AS e WHERE c.e > 1 ORDER BY 1, 2
SELECT id, k, e FROM sample LATERAL VIEW explode(a) x AS e LATERAL VIEW explode(w) y AS k ORDER BY id, e, k
SELECT sum(e) FROM (SELECT explode(sequence(1, 10)) AS e)
SELECT `id`, `i` AS `a b` FROM sample WHERE `id` == 1
SELECT id, CASE WHEN s LIKE '%o%' THEN upper(s) END FROM sample ORDER BY id
SELECT date_format(ts, 'yyyy-MM') AS month, count(*) AS n, round(avg(d), 2) AS mean FROM sample WHERE ts IS NOT NULL GROUP BY date_format(ts, 'yyyy-MM') ORDER BY month
SELECT id, i - lag(i) OVER (ORDER BY id) AS change FROM sample ORDER BY id
SELECT id, last_value(i) IGNORE NULLS OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM sample ORDER BY id
SELECT count(DISTINCT s), max(length(s)), min(ts), avg(CASE WHEN b THEN 1.0D ELSE 0.0D END) FROM sample
SELECT percentile_approx(i, array(0.25, 0.75)) FROM sample
SELECT id, concat_ws('_', CAST(i AS STRING), lower(s)) AS c FROM sample ORDER BY id
SELECT map_from_entries(collect_list(struct(id, i))) AS m FROM (SELECT * FROM sample WHERE id < 3 ORDER BY id)
SELECT x.id, y.i FROM sample x JOIN sample y ON x.id = y.id + 1 ORDER BY x.id
SELECT x.id, y.i FROM sample x LEFT JOIN sample y ON x.id = y.i ORDER BY x.id
SELECT id FROM sample x LEFT SEMI JOIN (SELECT 1 AS k UNION ALL SELECT 3) y ON x.id = y.k ORDER BY id
SELECT id FROM sample x LEFT ANTI JOIN (SELECT 1 AS k UNION ALL SELECT 3) y ON x.id = y.k ORDER BY id
SELECT id, x.i FROM sample x JOIN sample y USING (id) ORDER BY id
SELECT count(*) FROM sample x CROSS JOIN sample y
SELECT x.id, y.id FROM sample x FULL OUTER JOIN (SELECT id + 3 AS id FROM sample) y ON x.id = y.id ORDER BY 1, 2
SELECT id FROM sample WHERE id IN (SELECT id + 1 FROM sample) ORDER BY id
SELECT id FROM sample WHERE i IN (SELECT concat('0', 7)) ORDER BY id
SELECT id FROM sample WHERE f IN (SELECT 3.4 UNION ALL SELECT 1.25) ORDER BY id
SELECT id FROM sample WHERE s NOT IN (SELECT 7) ORDER BY id
SELECT id FROM sample x WHERE f IN (SELECT y.id / 4.0 FROM sample y WHERE y.id > x.id) ORDER BY id
SELECT id FROM sample x WHERE EXISTS (SELECT 1 FROM sample y WHERE y.id = x.id + 3) ORDER BY id
SELECT id, (SELECT max(i) FROM sample) FROM sample ORDER BY id
WITH t AS (SELECT id, i FROM sample) SELECT sum(i) FROM t
SELECT id FROM sample UNION SELECT 9 ORDER BY id
SELECT id FROM sample EXCEPT SELECT 1 ORDER BY id
SELECT id FROM sample MINUS SELECT 1 ORDER BY id
SELECT id FROM sample INTERSECT SELECT 1
SELECT id FROM sample ORDER BY id LIMIT 2
SELECT id FROM sample ORDER BY id LIMIT 2 OFFSET 1
SELECT * EXCEPT (a, w, p, st, j, ts, dt, f) FROM sample ORDER BY id
SELECT k, n FROM VALUES ('a', 1), ('b', NULL) AS t(k, n) ORDER BY k
SELECT id + 1 AS k, k * 2 AS twice FROM sample ORDER BY id
SELECT * FROM (SELECT id, b, i FROM sample WHERE b IS NOT NULL) PIVOT (sum(i) FOR b IN (true AS yes, false AS no)) ORDER BY id
SELECT * FROM (SELECT id, b, i FROM sample) PIVOT (count(i) AS n, sum(i) FOR b IN (true AS yes, false)) ORDER BY id
SELECT * FROM (SELECT h > 0 AS g, b, i FROM sample) PIVOT (count(*) AS n, count(DISTINCT i) AS d, count_if(i > 7) AS c FOR b IN (true, false)) ORDER BY g
SELECT * FROM (SELECT id, b, i FROM sample) PIVOT (count(i) AS n FOR b IN (true, false)) ORDER BY id
SELECT * FROM (SELECT id, b, i, s FROM sample) PIVOT (count(i) AS n, max(s) AS s FOR b IN (true, false)) ORDER BY id
SELECT id, c, v FROM (SELECT id, i AS x, id AS y FROM sample) UNPIVOT (v FOR c IN (x, y)) ORDER BY id, c
SELECT id FROM sample TABLESAMPLE (100 PERCENT) ORDER BY id
SELECT col1 FROM VALUES (1, 2)
SELECT * FROM VALUES 1, 2
SELECT t.col1, col2 + 1 FROM (VALUES (1, 2)) AS t
WITH t AS (VALUES (1, 2)) SELECT col1, t.col2 FROM t
SELECT * FROM (VALUES (1, 2)) JOIN (VALUES (3))
SELECT * FROM (VALUES (1, 2, 3) AS a(x, k, y)) JOIN (VALUES (2, 9) AS b(k, z)) USING (k)
SELECT 5, *, k FROM (VALUES (1, 2, 3) AS a(x, k, y)) FULL JOIN (VALUES (3, 9) AS b(k, z)) USING (K) ORDER BY k
SELECT * FROM (VALUES (1, 2, 3) AS a(x, k, y)) JOIN (VALUES (2, 3, 9) AS b(k, y, z)) USING (y, k)
SELECT * FROM (VALUES (1, 2, 3) AS a(x, k, y)) JOIN (VALUES (2, 9) AS b(k, z)) USING (k) JOIN (VALUES (7, 3) AS c(w, y)) USING (y)
SELECT * FROM (VALUES (7) AS c(w)) CROSS JOIN (VALUES (1, 2, 3) AS a(x, k, y)) LEFT SEMI JOIN (VALUES (2, 9) AS b(k, z)) USING (k)
SELECT * EXCEPT (k, x) FROM (VALUES (1, 2, 3) AS a(x, k, y)) JOIN (VALUES (2, 9) AS b(k, z)) USING (k)
SELECT a.* FROM (VALUES (1, 2, 3)) AS a(x, k, y) LEFT JOIN (VALUES (2, 9)) AS b(k, z) USING (k)
SELECT b.*, x, a.* FROM (VALUES (1, 2, 3)) AS a(x, k, y) RIGHT JOIN (VALUES (9, 7)) AS b(z, k) USING (k)
SELECT a.*, b.z FROM (VALUES (1, 2, 3)) AS a(x, k, y) JOIN (VALUES (3, 2, 9)) AS b(y, k, z) USING (y, k)
SELECT a.* FROM (VALUES (1, 2, 3)) AS a(x, k, y) LEFT SEMI JOIN (VALUES (2, 9)) AS b(k, z) USING (k)
SELECT a.* EXCEPT (x) FROM (VALUES (1, 2, 3)) AS a(x, y, k) NATURAL JOIN (VALUES (9, 3)) AS b(z, k)
SELECT a.*, c.* FROM (VALUES (1, 2, 3)) AS a(x, k, y) JOIN (VALUES (2, 9)) AS b(k, z) USING (k) JOIN (VALUES (7, 2)) AS c(w, k) ON c.w = 7
SELECT * FROM (VALUES (1, 2, 3) AS a(x, k, y)) NATURAL JOIN (VALUES (2, 9) AS b(k, z))
SELECT * FROM (VALUES (1, 2, 3) AS a(x, k, y)) NATURAL LEFT JOIN (VALUES (4, 3) AS b(z, Y))
SELECT * FROM (VALUES (1, 2, 3) AS a(x, k, y)) NATURAL LEFT JOIN (VALUES (9) AS b(z))
WITH a AS (SELECT 1 AS x, 2 AS k), b AS (SELECT 2 AS k, 4 AS z) SELECT * FROM a NATURAL JOIN b UNION ALL SELECT 3, 1, 4 ORDER BY k
SELECT i AS x FROM sample SORT BY x DESC LIMIT 3
SELECT id FROM sample DISTRIBUTE BY id % 2 SORT BY i NULLS LAST
SELECT id FROM sample CLUSTER BY i
SELECT collect_list(id) FROM (SELECT id FROM sample SORT BY id DESC)
SELECT id FROM sample ORDER BY id SORT BY i
SELECT sum(m) / 7D FROM sample
SELECT id FROM sample ORDER BY i
SELECT id FROM sample ORDER BY i DESC
SELECT id FROM sample ORDER BY i NULLS LAST
SELECT id FROM sample ORDER BY i DESC NULLS FIRST
SELECT id, row_number() OVER (ORDER BY i NULLS LAST) AS r FROM sample ORDER BY id

-- the order of structs and arrays: what is NULL in them comes first
SELECT max(struct(i, s)) AS a, min(struct(i, s)) AS b, max(struct(a, i)) AS c, min(array(i, id)) AS d FROM sample
SELECT max_by(id, struct(i)) AS a, min_by(id, struct(i)) AS b FROM sample
SELECT b, max(struct(i, id)) FILTER (WHERE id > 1) AS m FROM sample GROUP BY b ORDER BY b
SELECT max(struct(i, id)) OVER (PARTITION BY b ORDER BY id) AS m FROM sample ORDER BY id
SELECT struct(i, id) AS v FROM sample ORDER BY v
SELECT struct(i) AS i FROM sample ORDER BY i DESC
SELECT id FROM sample ORDER BY array(i, id) DESC, st
SELECT id, row_number() OVER (ORDER BY struct(i, id)) AS r FROM sample ORDER BY id
SELECT sort_array(collect_list(struct(i, id))) AS a, sort_array(collect_list(struct(i, id)), false) AS b FROM sample
SELECT array_sort(collect_list(array(i, id))) AS a FROM sample
sort_array(array(named_struct('a', i), NULL, named_struct('a', id)))

-- aliases in ORDER BY
SELECT -id AS id FROM sample ORDER BY id + 1
SELECT -id AS id FROM sample ORDER BY sample.id + 1
SELECT DISTINCT -id AS id FROM sample ORDER BY id + 1
SELECT b AS g, -sum(id) AS id FROM sample GROUP BY b ORDER BY abs(id) DESC
SELECT id, explode(array(2, 1)) AS x FROM sample ORDER BY -x, id

-- decimals are averaged and rounded exactly
SELECT avg(x) AS a, avg(x) FILTER (WHERE x > 12345678901234567.12) AS b FROM (VALUES (12345678901234567.12), (12345678901234567.13)) AS t(x)
SELECT avg(x) AS v FROM (VALUES (CAST(99999999999999999999.99 AS DECIMAL(22, 2))), (CAST(0.01 AS DECIMAL(22, 2)))) AS t(x)
SELECT avg(DISTINCT m) AS a, avg(-m) AS b, avg(m + 0.005) AS c FROM sample
SELECT b, avg(m) OVER (PARTITION BY b ORDER BY id) AS v FROM sample ORDER BY id
SELECT avg(m) AS v FROM sample WHERE id > 9
bround(12345678901234567.125, 2)
bround(12345678901234567.135, 2)
bround(-m * 0.005, 4)
bround(m, -1)
bround(m, 5)

-- edges
width_bucket(CAST('NaN' AS DOUBLE), 0, 10, 5)
width_bucket(d, 10, 0, 5)
width_bucket(d, 0, 0, 5)
width_bucket(d, 0, 10, id - 1)
slice(a, 1, -1)
sequence(1, 5, -1)
sequence(5, 1, 1)
sequence(1, 1, 0)
sequence(1, 2L)
sequence(id, 3, 3 - id)
sequence(DATE '2020-01-03', DATE '2020-01-01')
sequence(DATE '2020-01-01', DATE '2020-01-03', INTERVAL '-1' DAY)
sequence(DATE '2020-01-31', DATE '2020-04-30', INTERVAL 1 MONTH)
sequence(DATE '2020-03-31', DATE '2019-12-30', INTERVAL -1 MONTH)
sequence(DATE '2020-01-31', DATE '2020-03-30', INTERVAL 1 MONTH)
sequence(dt, dt, INTERVAL 1 MONTH)
transform(a, x -> struct(x, i))
try_element_at(a, 0)
try_element_at(a, -2)
timestampdiff(MONTH, TIMESTAMP '2020-01-31 00:00:00', TIMESTAMP '2020-02-29 00:00:00')
timestampdiff(MONTH, TIMESTAMP '2020-03-31 10:00:00', TIMESTAMP '2020-02-29 09:00:00')
timestampdiff(MONTH, TIMESTAMP '2020-03-30 10:00:00', TIMESTAMP '2020-02-29 11:00:00')
timestampdiff(YEAR, TIMESTAMP '2020-02-29 10:00:00', TIMESTAMP '2021-02-28 11:00:00')
timestampdiff(QUARTER, ts, TIMESTAMP '2021-02-28 10:00:00')
SELECT stack(2, 1, NULL, 2, 'x')
SELECT stack(2, 1, 2L)
SELECT stack(2, 1, 'x')
SELECT count(DISTINCT i) OVER () AS v FROM sample
SELECT * EXCLUDE (i) FROM sample
SELECT * REPLACE (1 AS i) FROM sample
SELECT * RENAME (i AS k) FROM sample
SELECT i FROM sample USING SAMPLE 2 ROWS
SELECT id FROM sample QUALIFY row_number() OVER (ORDER BY id DESC) = 1

-- JSON of values
to_json(st)
to_json(struct(i, l, d, f, m, s, b, dt, ts, h, a, w, p))
to_json(array(named_struct('a', i), NULL))
to_json(map(i IS NULL, array(m, NULL)))
to_json(map('a', CAST(NULL AS INT)))
to_json(struct(CAST('NaN' AS DOUBLE), CAST('-Infinity' AS FLOAT), X'1F', TIMESTAMP '0099-01-01 00:00:00.000009'))
to_json(i)
typeof(i)
typeof(d)
typeof(ts)
typeof(a)
typeof(map('a', array(1.5D)))
typeof(named_struct('x', i, 'y', s))
typeof(NULL)
typeof(CAST(1 AS DECIMAL(7, 2)) * 2)

-- texts read by patterns, and times written by them
to_timestamp('24', 'yy')
to_timestamp('10:05', 'HH:mm')
to_timestamp('2024-1-5', 'yyyy-MM-dd')
to_timestamp('2024-01-05 ', 'yyyy-MM-dd')
to_timestamp('2024-01-05x', 'yyyy-MM-dd')
to_timestamp(' 2024-01-05', 'yyyy-MM-dd')
to_timestamp('2024-01-05 10', 'yyyy-MM-dd HH')
to_timestamp('2024-1-5', 'y-M-d')
to_timestamp('20240105', 'yyyyMMdd')
to_timestamp('2024010510', 'yyyyMMddHH')
to_timestamp('24/01/05', 'yy/MM/dd')
to_timestamp('70/01/05', 'yy/MM/dd')
to_timestamp('2024-02-30', 'yyyy-MM-dd')
to_timestamp('2024-13-01', 'yyyy-MM-dd')
to_timestamp('2024-01-05 24:00:00', 'yyyy-MM-dd HH:mm:ss')
to_timestamp('05/Jan/2024:10:00:00 +0100', 'dd/MMM/yyyy:HH:mm:ss Z')
to_timestamp('2024-01-05T10:00:00+01:00', "yyyy-MM-dd'T'HH:mm:ssXXX")
to_timestamp('2024-01-05T10:00:00Z', "yyyy-MM-dd'T'HH:mm:ssXXX")
to_timestamp('2024-01-05T10:00:00Z', "yyyy-MM-dd'T'HH:mm:ssX")
to_timestamp('2024-01-05T10:00:00+01', "yyyy-MM-dd'T'HH:mm:ssX")
to_timestamp('2024-01-05T10:00:00+0130', "yyyy-MM-dd'T'HH:mm:ssXX")
to_timestamp('2024-01-05T10:00:00+01:30', "yyyy-MM-dd'T'HH:mm:ssxxx")
to_timestamp('2024-01-05T10:00:00+00:00', "yyyy-MM-dd'T'HH:mm:ssxxx")
to_timestamp('2024-01-05 10:00:00 Europe/Berlin', 'yyyy-MM-dd HH:mm:ss VV')
to_timestamp('2024-01-05 10:00:00 UTC', 'yyyy-MM-dd HH:mm:ss VV')
to_timestamp('2024-01-05 10:00:00 +01:00', 'yyyy-MM-dd HH:mm:ss VV')
to_timestamp('2024-01-05 10:00:00 CET', 'yyyy-MM-dd HH:mm:ss z')
to_timestamp('2024-01-05 10:00:00 GMT+1', 'yyyy-MM-dd HH:mm:ss O')
to_timestamp('2024-01-05 10:00:00.123', 'yyyy-MM-dd HH:mm:ss.SSS')
to_timestamp('2024-01-05 10:00:00.1', 'yyyy-MM-dd HH:mm:ss.SSS')
to_timestamp('2024-01-05 10:00:00.1234', 'yyyy-MM-dd HH:mm:ss.SSS')
to_timestamp('2024-01-05 10:00:00.123456', 'yyyy-MM-dd HH:mm:ss.SSSSSS')
to_timestamp('2024-01-05 10:00:00.1', 'yyyy-MM-dd HH:mm:ss.S')
to_timestamp('2024-01-05 10:05 PM', 'yyyy-MM-dd hh:mm a')
to_timestamp('2024-01-05 12:05 AM', 'yyyy-MM-dd hh:mm a')
to_timestamp('2024-01-05 13:05 AM', 'yyyy-MM-dd hh:mm a')
to_timestamp('2024-01-05 10:05 pm', 'yyyy-MM-dd hh:mm a')
to_timestamp('2024-01-05 10:05', 'yyyy-MM-dd hh:mm')
to_timestamp('5 January 2024', 'd MMMM yyyy')
to_timestamp('5 january 2024', 'd MMMM yyyy')
to_timestamp('5 Jan 2024', 'd MMM yyyy')
to_timestamp('5 JAN 2024', 'd MMM yyyy')
to_timestamp('Fri 5 Jan 2024', 'EEE d MMM yyyy')
to_timestamp('Friday 5 Jan 2024', 'EEEE d MMM yyyy')
to_timestamp('2024 123', 'yyyy DDD')
to_timestamp('2024 12', 'yyyy D')
to_timestamp('2024', 'yyyy')
to_timestamp('2024-05', 'yyyy-MM')
to_timestamp('12024-01-05', 'yyyy-MM-dd')
to_timestamp('10', 'HH')
to_timestamp('05', 'mm')
to_timestamp('2024-01-05 1', 'yyyy-MM-dd H')
to_timestamp('2024-01-05 1', 'yyyy-MM-dd HH')
to_timestamp("2024-01-05T10", "yyyy-MM-dd'T'HH")
to_timestamp('2024''05', "yyyy''MM")
to_timestamp('2024-01-05 10:00:60', 'yyyy-MM-dd HH:mm:ss')
to_timestamp('AD 2024', 'G yyyy')
to_timestamp('2024-Q1', "yyyy-'Q'q")
to_timestamp('024-01-05', 'yyy-MM-dd')
to_timestamp('2024-01-05 [x]', 'yyyy-MM-dd [x]')
to_timestamp('2024-01-05', 'yyyy-MM-dd[ HH:mm]')
to_timestamp('2024-01-05 10:20', 'yyyy-MM-dd[ HH:mm]')
to_timestamp('2024-01-05 24', 'yyyy-MM-dd kk')
to_date('2024-1-5', 'yyyy-MM-dd')
to_date('05.01.2024', 'dd.MM.yyyy')
to_date('24', 'yy')
to_date('10:05', 'HH:mm')
to_date('2024-01-05 10:00', 'yyyy-MM-dd')
to_date('20240105', 'yyyyMMdd')
unix_timestamp('2024-01-05 10', 'yyyy-MM-dd HH')
unix_timestamp('10:05', 'HH:mm')
unix_timestamp('2024-1-5', 'yyyy-MM-dd')
try_to_timestamp('2024-1-5', 'yyyy-MM-dd')
try_to_timestamp('2024-01-05', 'yyyy-MM-dd')
try_to_timestamp('x')
try_to_timestamp('2024-01-05 24:00:00')
try_to_date('2024-1-5', 'yyyy-MM-dd')
try_to_date('x')
try_to_date('2024-01-05')
date_format(ts, 'yy')
date_format(ts, 'y M d D')
date_format(ts, 'HH:mm:ss.S')
date_format(ts, 'HH:mm:ss.SS')
date_format(ts, 'HH:mm:ss.SSSS')
date_format(ts, 'X XX XXX XXXX XXXXX')
date_format(ts, 'x xx xxx')
date_format(ts, 'Z ZZ ZZZ ZZZZ ZZZZZ')
date_format(ts, 'VV z zzzz O OOOO')
date_format(ts, 'a E EEEE MMM MMMM L LLLL')
date_format(ts, "'o''clock' HH")
from_unixtime(1704448800, 'yyyy-MM-dd HH:mm:ss z')
from_unixtime(1704448800, "yyyy-MM-dd'T'HH:mm:ssXXX")
to_utc_timestamp('2024-11-03 01:30:00', 'America/New_York')
to_utc_timestamp('2024-03-10 02:30:00', 'America/New_York')
from_utc_timestamp('2024-11-03 06:30:00', 'America/New_York')
from_utc_timestamp('2024-01-01 00:00:00', '+05:30')
from_utc_timestamp('2024-01-01 00:00:00', '+5:30')
from_utc_timestamp('2024-01-01 00:00:00', 'GMT+2')
from_utc_timestamp('2024-01-01 00:00:00', 'EST')
to_utc_timestamp('2024-01-01 00:00:00', 'Z')
to_utc_timestamp('1880-01-01 00:00:00', 'Europe/Berlin')
to_utc_timestamp('2024-04-07 01:45:00', 'Australia/Lord_Howe')
CAST('2024-01-05 24:00:00' AS TIMESTAMP)
TRY_CAST('2024-01-05 24:00:00' AS TIMESTAMP)
CAST('2024-10-27 02:30:00 Europe/Berlin' AS TIMESTAMP)
CAST('2024-1-5 1:2:3' AS TIMESTAMP)
CAST('1_0' AS DOUBLE)
TRY_CAST('1_0' AS INT)
CAST('1d' AS DOUBLE)
TRY_CAST('abc' AS DOUBLE)
TRY_CAST(' 7 ' AS DOUBLE)
CAST(' INF' AS DOUBLE)
TRY_CAST('1e400' AS DOUBLE)
CAST('1_0' AS DECIMAL(5,2))
TRY_CAST('abc' AS DECIMAL(5,2))
CAST(' 1.5 ' AS DECIMAL(5,2))
CAST('1,5' AS DECIMAL(5,2))
TRY_CAST('t' AS BOOLEAN)
TRY_CAST('2024-01-05T' AS DATE)
TRY_CAST('2024-01-05 xyz' AS DATE)
TRY_CAST('+2024-01-05' AS DATE)
TIMESTAMP'2024-01-05 10:00:00 Europe/Berlin'
TIMESTAMP'2024-01-05 24:00:00'
lower('ΑΣ')
lower('ΑΣ ΒΣΓ Σ')
lower('İ')
upper('ß')
upper('ŉ')
hex(reverse('e\u0301a'))
initcap('ΑΣ ÉCOLE')
initcap('sPark sql')
length('e\u0301')
substring('e\u0301a', 1, 1)
hex(left('e\u0301a', 1))
hex(right('ae\u0301', 1))
lpad('e\u0301', 4, 'x')
length('👍🏽')
instr('e\u0301a', 'a')
ascii('é')
elt(1, 'a', 'b')
elt(2, 'a', NULL)
elt(3, 'a', 'b')
elt(i, 'a', 'b')
conv('100', 2, 10)
conv(-10, 16, -10)
conv('ff', 16, 10)
conv('FFFFFFFFFFFFFFFFFF', 16, 10)
conv('z', 10, 16)
conv('12x', 10, 16)
conv(' 12', 10, 16)
conv('', 10, 16)
conv('-1', 10, 16)
conv('10', 1, 10)
conv('15', 10, -16)
conv(i, 10, 2)
hash(i)
hash(l)
hash(d)
hash(f)
hash(m)
hash(s)
hash(b)
hash(dt)
hash(ts)
hash(a)
hash(w)
hash(st)
hash(h)
hash(NULL)
hash(i, s, d)
hash('a', NULL, 1)
hash(CAST(m AS DECIMAL(30,5)))
hash(X'0102030405')
hash(-0.0D)
hash(0.0D, CAST('NaN' AS DOUBLE))
hash(p)
hash(array(array(1), NULL))
date_format(ts, 'HH:mm:ss.SS SSSSS SSSSSSSSS')
date_format(ts, 'yyyy[ HH]')
get_json_object('{"l":[{"k":1},{"k":2}]}', '$.l[*].k')
get_json_object('{"l":[{"k":1}]}', '$.l[*].k')
get_json_object('{"l":[{"k":"x"}]}', '$.l[*].k')
get_json_object('{"l":[{"k":"x"},{"k":"y"}]}', '$.l[*].k')
get_json_object('{"l":[]}', '$.l[*].k')
get_json_object('{"l":[]}', '$.l[*]')
get_json_object('{"l":[1]}', '$.l[*]')
get_json_object('{"l":[1,"a",null,{"z": 1.50}]}', '$.l[*]')
get_json_object('{"l":[[1,2],[3]]}', '$.l[*][*]')
get_json_object('{"l":[[1,2],[3]]}', '$.l[*][0]')
get_json_object('{"l":[{"k":[1,2]},{"k":[3]}]}', '$.l[*].k[*]')
get_json_object('{"l":[{"k":[1,2]},{"k":[3]}]}', '$.l[*].k[0]')
get_json_object('{"l":[{"k":[1,2]},{"k":[3]}]}', '$.l[*].k')
get_json_object('{"a b":1}', "$['a b']")
get_json_object('{"a":{"b.c":1}}', "$.a['b.c']")
get_json_object('{"a":1e7,"b":1.50,"c":10000000.0,"d":100}', '$')
get_json_object('{"a":1e7}', '$.a')
get_json_object('{"a":1.50}', '$.a')
get_json_object('{"a":10000000.0}', '$.a')
get_json_object('{"a":1,"a":2}', '$.a')
get_json_object('{"a": {"x" : 1.50, "y":[1, 2]}}', '$.a')
get_json_object('{"a":{"x":1,"y":2}}', '$.*')
get_json_object('{"a":{"x":1,"y":2}}', '$.a.*')
get_json_object('[{"a":1},{"a":2}]', '$[*].a')
get_json_object('[{"a":1},{"a":2}]', '$[1].a')
get_json_object('[{"a":1},{"a":2}]', '$.a')
get_json_object('{"a":[{"b":1},{"b":2}]}', '$.a.b')
get_json_object('{"a":true,"b":null}', '$.a')
get_json_object('{"a":true,"b":null}', '$.b')
get_json_object('{"a":[5]}', '$.a[-1]')
get_json_object('{"a":1}', 'a')
get_json_object('{"a":1}', '$a')
get_json_object('{"a":1}', '$.')
get_json_object('{"a":1}', '$..a')
get_json_object('"x"', '$')
get_json_object('{"a":"q\\"x"}', '$.a')
get_json_object('{"a":"é\\u00e9"}', '$.a')
get_json_object('{"a":["é\\u00e9"]}', '$.a')
get_json_object('{"A":1}', '$.a')
get_json_object('{"a":[1,[2,3]]}', '$.a[1][*]')
get_json_object('{"l":[{"k":null},{"k":2}]}', '$.l[*].k')
get_json_object('{"l":[{"j":1},{"k":2}]}', '$.l[*].k')
get_json_object('{"a":12345678901234567890123}', '$.a')
get_json_object('{"a":0.1234567890123456789}', '$.a')
get_json_object('{"a-b":1,"a:b":2}', '$.a-b')
get_json_object('{"a":1}', '$. a')
get_json_object('{"l":[1,2]}', '$.l[ 0 ]')
to_utc_timestamp(ts, 'Europe/Berlin')
from_utc_timestamp(ts, 'nowhere')
CAST(convert_timezone('Europe/Berlin', 'America/New_York', TIMESTAMP_NTZ'2024-01-05 10:00:00') AS STRING)
CAST(convert_timezone('America/New_York', ts) AS STRING)
CAST(convert_timezone('Europe/Berlin', 'America/New_York', '2024-10-27 02:30:00') AS STRING)
extract(DAY FROM DATE'2024-01-05' - DATE'2024-01-01')
CAST(dt - DATE'2000-01-01' AS INT)
dt - DATE'2000-01-01' > INTERVAL 100 DAY
SELECT window(ts, '10 minutes').start AS a, window(ts, '10 minutes').end AS b, count(*) AS n FROM sample WHERE ts IS NOT NULL GROUP BY window(ts, '10 minutes') ORDER BY a
SELECT window(ts, '1 week').start AS a FROM sample WHERE ts IS NOT NULL ORDER BY a
SELECT try_sum(x) AS t FROM VALUES (9223372036854775807L), (1L) AS v(x)
SELECT sum(x) AS t FROM VALUES (9223372036854775807L), (1L) AS v(x)
from_json('{"a":1.9,"b":"5","c":1e7,"d":[1.5]}', 'a INT, b INT, c STRING, d ARRAY<INT>')
from_json('{"a":1577959200,"b":"2020-01-02 24:00:00","c":"2020-1-2"}', 'a TIMESTAMP, b TIMESTAMP, c DATE')
from_json('{"a":1,"a":2}', 'a INT')
from_json('{"a":{"b":1.50,"c":[1e7]}}', 'a STRUCT<b: STRING, c: ARRAY<STRING>>')
SELECT json_tuple('{"a b": 1, "c.d": 1e7, "e": 1.50}', 'a b', 'c.d', 'e')
SELECT try_avg(l) AS a, try_avg(m) AS b, try_sum(i) AS c, try_sum(m) AS d, try_sum(d) AS e, try_sum(DISTINCT i) AS f FROM sample
-- patterns of times that DuckDB has no code of
date_format(ts, 'y yyy yyyyy yyyyyy')
date_format(ts, 'Q QQ QQQ QQQQ q qq qqq qqqq')
date_format(ts, 'k kk K KK h hh H HH')
date_format(ts, 'D DD DDD F g gg gggggg')
date_format(ts, 'G GG GGG GGGG v vvvv xxxx xxxxx')
date_format(TIMESTAMP'2024-01-01 00:00:00', 'y yyy yyyyy Q QQQQ k kk K KK D DD DDD F')
date_format(TIMESTAMP'0999-03-07 11:59:59', 'y yy yyy yyyy yyyyy k kk K KK D DD DDD F')
date_format(dt, 'QQQ yyyy')
from_unixtime(i, 'kk:mm QQQ')
date_format(ts, 'QQQQQ')
date_format(ts, 'DDDD')
date_format(ts, 'kkk')
date_format(ts, 'KKK')
date_format(ts, 'FF')
date_format(ts, 'yyyyyyy')
date_format(ts, 'GGGGG')
date_format(ts, 'vv')
date_format(ts, 'aa')
date_format(ts, 'Y')
date_format(ts, 'w')
date_format(ts, 'e')
date_format(ts, 'c')
date_format(ts, 'n')
date_format(ts, 'N')
date_format(ts, 'A')
date_format(ts, 'B')
date_format(ts, 'p')
to_timestamp('2013 3', 'yyyy Q')
to_timestamp('2013-01-01 3', 'yyyy-MM-dd F')
to_timestamp('2013-01-01 Sat', 'yyyy-MM-dd E')
to_timestamp('2013-01-01 24', 'yyyy-MM-dd kk')
to_timestamp('2013-01-01 00 PM', 'yyyy-MM-dd KK a')
to_timestamp('02013-01-01', 'yyyyy-MM-dd')
to_date('2013 060', 'yyyy DDD')
to_date('2013 60', 'yyyy DD')
-- windows that overlap, and rows without a time
SELECT window(ts, '10 minutes') AS w FROM sample ORDER BY w
SELECT id, window(ts, '10 minutes', '5 minutes') FROM sample ORDER BY id, 2
SELECT id, window(ts, '10 minutes', '4 minutes').start AS s, window(ts, '10 minutes', '4 minutes').end AS e FROM sample ORDER BY id, s
SELECT window(ts, '10 minutes', '5 minutes', '2 minutes').start AS s, count(*) AS n FROM sample GROUP BY window(ts, '10 minutes', '5 minutes', '2 minutes') ORDER BY s
SELECT window(ts, '10 minutes', '5 minutes', '-2 minutes').start AS s FROM sample ORDER BY id, s
SELECT window(ts, '10 minutes', '10 minutes', '3 minutes') AS w FROM sample ORDER BY id
SELECT window(dt, '2 days', '1 day') AS w FROM sample ORDER BY id, w
SELECT window.start AS s, count(*) AS n FROM sample GROUP BY window(ts, '10 minutes') ORDER BY window.start
SELECT window, count(*) AS n FROM sample GROUP BY window(ts, '10 minutes', '5 minutes') HAVING window.start > TIMESTAMP'2000-01-01' ORDER BY window
SELECT id, window(ts, '10 minutes', '5 minutes') AS w, explode(array(1, 2)) AS x FROM sample ORDER BY id, w, x
SELECT id, count(*) OVER (PARTITION BY window(ts, '10 minutes', '5 minutes')) AS n FROM sample ORDER BY id, n
SELECT s.id, window(s.ts, '10 minutes', '5 minutes').start AS w FROM sample AS s JOIN sample AS t ON s.id = t.id ORDER BY s.id, w
SELECT *, window(ts, '10 minutes', '5 minutes') AS w FROM (SELECT id, ts FROM sample) ORDER BY id, w
SELECT window(ts, '10 minutes', '5 minutes') AS a, window(ts, '20 minutes') AS b FROM sample
SELECT window(ts, '5 minutes', '10 minutes') AS w FROM sample
SELECT window(ts, '10 minutes', '5 minutes', '5 minutes') AS w FROM sample
SELECT window(ts, '1 month', '1 day') AS w FROM sample
SELECT window(ts, '0 minutes') AS w FROM sample
-- patterns by which times are read
SELECT to_timestamp('PM', 'a') AS v
SELECT to_timestamp('56535', 'gg') AS v
SELECT to_timestamp('056535', 'gggggg') AS v
SELECT to_timestamp('UTC', 'v') AS v
SELECT to_timestamp('+0000', 'xxxx') AS v
SELECT to_timestamp('+00:00', 'xxxxx') AS v
SELECT to_timestamp('2013', 'yyy') AS v
SELECT to_timestamp('AD', 'GG') AS v
SELECT to_timestamp('Anno Domini', 'GGGG') AS v
SELECT to_timestamp('GMT', 'OOOO') AS v
SELECT to_timestamp('Z', 'XXXX') AS v
SELECT to_timestamp('Z', 'XXXXX') AS v
SELECT to_timestamp('GMT', 'ZZZZ') AS v
-- parts of times that no line above asks for
extract(dow_iso FROM dt)
extract(yearofweek FROM dt)
extract(day FROM dt - DATE'2013-01-01')
