/* Conversions of one dtype into every compute type. Included once per dtype with
 *   FROM  its name in small letters     CONVERT_PAIR  the template of one of them */
#ifndef FROM /* read alone */
#include "ops/cpu/convert_dtypes.h"
#define CONVERT_PAIR "ops/cpu/convert_pair_tmpl.h"
#define FROM f32
#endif

#define TO f32
#include CONVERT_PAIR
#define TO f64
#include CONVERT_PAIR
#define TO i64
#include CONVERT_PAIR
#define TO bool
#include CONVERT_PAIR
#define TO c64
#include CONVERT_PAIR
#define TO c128
#include CONVERT_PAIR
#undef FROM
