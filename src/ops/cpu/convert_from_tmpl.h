/* Conversions of one dtype into every compute type. Included once per dtype with FROM, its name in small letters. */
#define TO f32
#include "ops/cpu/convert_pair_tmpl.h"
#define TO f64
#include "ops/cpu/convert_pair_tmpl.h"
#define TO i64
#include "ops/cpu/convert_pair_tmpl.h"
#define TO bool
#include "ops/cpu/convert_pair_tmpl.h"
#define TO c64
#include "ops/cpu/convert_pair_tmpl.h"
#define TO c128
#include "ops/cpu/convert_pair_tmpl.h"
#undef FROM
