/*-------------------------------------------------------------------------
 *
 * pvt_steps.h
 *	  The operations of an atomic counter, with a call of step() before each.
 *
 * Who includes this defines step(), in which another process can come in, and
 * includes the code to be tested afterwards.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PVT_STEPS_H
#define PVT_STEPS_H

#include "port/atomics.h"

static void step(void);

static inline uint32
read_step(pg_atomic_uint32 *ptr)
{
	step();
	return pg_atomic_read_u32(ptr);
}

static inline void
write_step(pg_atomic_uint32 *ptr, uint32 value)
{
	step();
	pg_atomic_write_u32(ptr, value);
}

static inline bool
compare_exchange_step(pg_atomic_uint32 *ptr, uint32 *expected, uint32 value)
{
	step();
	return pg_atomic_compare_exchange_u32(ptr, expected, value);
}

static inline uint32
fetch_add_step(pg_atomic_uint32 *ptr, int32 n)
{
	step();
	return pg_atomic_fetch_add_u32(ptr, n);
}

#define pg_atomic_read_u32(ptr)			read_step(ptr)
#define pg_atomic_write_u32(ptr, value)	write_step(ptr, value)
#define pg_atomic_compare_exchange_u32(ptr, expected, value) \
	compare_exchange_step(ptr, expected, value)
#define pg_atomic_fetch_add_u32(ptr, n)	fetch_add_step(ptr, n)
#define pg_atomic_fetch_sub_u32(ptr, n)	fetch_add_step(ptr, -(int32) (n))
#define pg_atomic_add_fetch_u32(ptr, n)	(fetch_add_step(ptr, n) + (n))
#define pg_atomic_sub_fetch_u32(ptr, n)	(fetch_add_step(ptr, -(int32) (n)) - (n))

#endif							/* PVT_STEPS_H */
