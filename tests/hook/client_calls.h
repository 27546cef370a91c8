/* The calls of smeltr.h as a C program makes them; its own translation unit and language. */
#ifndef SMELTR_TESTS_CLIENT_CALLS_H
#define SMELTR_TESTS_CLIENT_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

int c_recording(void);
void c_decode_step(int step);
void c_odd_arguments(void);

#ifdef __cplusplus
}
#endif

#endif
