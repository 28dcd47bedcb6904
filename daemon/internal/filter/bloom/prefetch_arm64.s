#include "textflag.h"

// func prefetchBlocks(start uintptr, blocks uint64, keys []Hash)
TEXT ·prefetchBlocks(SB), NOSPLIT, $0-40
	MOVD start+0(FP), R0
	MOVD blocks+8(FP), R1
	MOVD keys_base+16(FP), R2
	MOVD keys_len+24(FP), R3
	CBZ  R3, done

loop:
	MOVD.P 16(R2), R4        // Hi
	UMULH R1, R4, R5         // block
	LSL  $6, R5, R5
	ADD  R0, R5, R5
	PRFM (R5), PSTL1KEEP
	SUBS $1, R3, R3
	BNE  loop

done:
	RET
