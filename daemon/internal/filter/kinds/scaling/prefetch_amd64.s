#include "textflag.h"

// func fetch(bits []byte, places []uint64)
TEXT ·fetch(SB), NOSPLIT, $0-48
	MOVQ bits_base+0(FP), DI
	MOVQ places_base+24(FP), SI
	MOVQ places_len+32(FP), CX
	TESTQ CX, CX
	JZ   done

loop:
	MOVQ (SI), AX
	SHRQ $3, AX
	PREFETCHT0 (DI)(AX*1)
	ADDQ $8, SI
	DECQ CX
	JNZ  loop

done:
	RET
