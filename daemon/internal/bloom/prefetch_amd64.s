#include "textflag.h"

// func prefetchBlocks(blocks []block, keys []Hash)
TEXT ·prefetchBlocks(SB), NOSPLIT, $0-48
	MOVQ blocks_base+0(FP), SI
	MOVQ blocks_len+8(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
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
