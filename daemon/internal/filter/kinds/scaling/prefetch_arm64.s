#include "textflag.h"

// func fetch(bits []byte, places []uint64)
TEXT ·fetch(SB), NOSPLIT, $0-48
	MOVD bits_base+0(FP), R0
	MOVD places_base+24(FP), R1
	MOVD places_len+32(FP), R2
	CBZ  R2, done

loop:
	MOVD.P 8(R1), R3
	ADD  R3>>3, R0, R3
	PRFM (R3), PLDL1KEEP
	SUBS $1, R2, R2
	BNE  loop

done:
	RET
