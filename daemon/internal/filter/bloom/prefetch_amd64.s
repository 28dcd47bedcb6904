#include "textflag.h"

// func prefetchBlocks(start uintptr, blocks uint64, keys []Hash)
TEXT ·prefetchBlocks(SB), NOSPLIT, $0-40
	MOVQ start+0(FP), SI
	MOVQ blocks+8(FP), BX
	MOVQ keys_base+16(FP), DI
	MOVQ keys_len+24(FP), CX
	TESTQ CX, CX
	JZ   done

loop:
	MOVQ (DI), AX            // Hi
	MULQ BX                  // DX = block
	SHLQ $6, DX
	PREFETCHT0 (SI)(DX*1)
	ADDQ $16, DI
	DECQ CX
	JNZ  loop

done:
	RET
