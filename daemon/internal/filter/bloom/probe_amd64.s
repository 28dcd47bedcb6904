#include "textflag.h"

// Where the six bits of each word's position lie in Lo.
DATA shifts<>+0(SB)/8, $0
DATA shifts<>+8(SB)/8, $6
DATA shifts<>+16(SB)/8, $12
DATA shifts<>+24(SB)/8, $18
DATA shifts<>+32(SB)/8, $24
DATA shifts<>+40(SB)/8, $30
DATA shifts<>+48(SB)/8, $36
DATA shifts<>+56(SB)/8, $42
GLOBL shifts<>(SB), RODATA|NOPTR, $64

// The constants of pair: the multiplier, halves and the others.
DATA golden<>+0(SB)/8, $0x9e3779b97f4a7c15
GLOBL golden<>(SB), RODATA|NOPTR, $8
DATA halves<>+0(SB)/8, $0x820820820820
GLOBL halves<>(SB), RODATA|NOPTR, $8
DATA lowers<>+0(SB)/8, $0xFFFF7DF7DF7DF7DF
GLOBL lowers<>(SB), RODATA|NOPTR, $8

#define CONSTANTS \
	VMOVDQU shifts<>+0(SB), Y8; \
	VMOVDQU shifts<>+32(SB), Y9; \
	MOVQ $63, AX; \
	MOVQ AX, X10; \
	VPBROADCASTQ X10, Y10; \
	MOVQ $1, AX; \
	MOVQ AX, X11; \
	VPBROADCASTQ X11, Y11; \
	VPXOR Y12, Y12, Y12

// BLOCK leaves the address of the key's block in DX.
#define BLOCK \
	MOVQ (DI), AX; \
	MULQ BX; \
	SHLQ $6, DX; \
	ADDQ SI, DX

// MASKS makes the masks of a block's two halves of Y0, which has Lo four times.
#define MASKS(A, B) \
	VPSRLVQ Y8, Y0, A; \
	VPSRLVQ Y9, Y0, B; \
	VPAND Y10, A, A; \
	VPAND Y10, B, B; \
	VPSLLVQ A, Y11, A; \
	VPSLLVQ B, Y11, B

#define FIRST \
	VPBROADCASTQ 8(DI), Y0

#define LOWER \
	MOVQ 8(DI), AX; \
	ANDQ lowers<>(SB), AX; \
	VMOVQ AX, X0; \
	VPBROADCASTQ X0, Y0

#define UPPER \
	MOVQ 8(DI), AX; \
	SHLQ $16, AX; \
	SHRQ $16, AX; \
	IMULQ golden<>(SB), AX; \
	SHRQ $16, AX; \
	ORQ halves<>(SB), AX; \
	VMOVQ AX, X0; \
	VPBROADCASTQ X0, Y0

// SET sets the bits of the masks Y1 and Y2 in the block in Y3 and Y4. AX has the words, one bit for
// each, whose bit was there, and R9 counts them.
#define SET \
	VPANDN Y1, Y3, Y5; \
	VPANDN Y2, Y4, Y6; \
	VPOR Y1, Y3, Y3; \
	VPOR Y2, Y4, Y4; \
	VPCMPEQQ Y12, Y5, Y5; \
	VPCMPEQQ Y12, Y6, Y6; \
	VMOVMSKPD Y5, AX; \
	VMOVMSKPD Y6, R11; \
	SHLQ $4, R11; \
	ORQ  R11, AX; \
	POPCNTQ AX, R12; \
	ADDQ R12, R9

// MISSING leaves in Y5 which bits of the masks the block at DX lacks.
#define MISSING \
	VMOVDQU (DX), Y3; \
	VMOVDQU 32(DX), Y4; \
	VPANDN Y1, Y3, Y5; \
	VPANDN Y2, Y4, Y6; \
	VPOR Y5, Y6, Y5; \
	VPTEST Y5, Y5

#define BOTH \
	UPPER; \
	MASKS(Y13, Y14); \
	VPOR Y13, Y1, Y1; \
	VPOR Y14, Y2, Y2

// func addKeysAVX2(blocks []block, keys []Hash, fresh []bool) (n, set int)
//
// The eight words of a block at once, in two halves: make the mask, see which of its
// bits are missing, or it in. R8 counts fresh keys, R9 the bits that were there.
TEXT ·addKeysAVX2(SB), NOSPLIT, $0-88
	MOVQ blocks_base+0(FP), SI
	MOVQ blocks_len+8(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
	MOVQ fresh_base+48(FP), R10
	XORQ R8, R8
	XORQ R9, R9
	TESTQ CX, CX
	JZ   done
	CONSTANTS

loop:
	BLOCK
	VMOVDQU (DX), Y3
	VMOVDQU 32(DX), Y4
	FIRST
	MASKS(Y1, Y2)
	SET
	VMOVDQU Y3, (DX)
	VMOVDQU Y4, 32(DX)
	XORQ R11, R11
	CMPQ AX, $0xFF
	SETNE R11
	MOVB R11, (R10)
	ADDQ R11, R8
	ADDQ $16, DI
	INCQ R10
	DECQ CX
	JNZ  loop
	VZEROUPPER

done:
	MOVQ R8, n+72(FP)
	MOVQ keys_len+32(FP), R13
	SHLQ $3, R13                // bits a key
	SUBQ R9, R13
	MOVQ R13, set+80(FP)
	RET

// func hasKeysAVX2(blocks []block, keys []Hash, fresh []bool)
//
// The same masks, and no write: a key is fresh if a bit of its masks is missing.
TEXT ·hasKeysAVX2(SB), NOSPLIT, $0-72
	MOVQ blocks_base+0(FP), SI
	MOVQ blocks_len+8(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
	MOVQ fresh_base+48(FP), R10
	TESTQ CX, CX
	JZ   done
	CONSTANTS

loop:
	BLOCK
	FIRST
	MASKS(Y1, Y2)
	MISSING
	SETNE (R10)
	ADDQ $16, DI
	INCQ R10
	DECQ CX
	JNZ  loop
	VZEROUPPER

done:
	RET

// func newInAllAVX2(layers [][]block, keys []Hash, fresh []bool)
//
// The blocks of a key in all layers are fetched eight keys ahead. R11 is 1 once a layer has the key.
TEXT ·newInAllAVX2(SB), NOSPLIT, $0-72
	MOVQ layers_base+0(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
	MOVQ fresh_base+48(FP), R10
	TESTQ CX, CX
	JZ   done
	CONSTANTS

loop:
	CMPQ CX, $8
	JLE  masks
	MOVQ 128(DI), R9            // Hi of the key after the next seven
	MOVQ BX, SI
	MOVQ layers_len+8(FP), R8

ahead:
	MOVQ R9, AX
	MULQ 8(SI)
	SHLQ $6, DX
	ADDQ (SI), DX
	PREFETCHT0 (DX)
	ADDQ $24, SI
	DECQ R8
	JNZ  ahead

masks:
	FIRST
	MASKS(Y1, Y2)
	MOVQ (DI), R9
	MOVQ BX, SI
	MOVQ layers_len+8(FP), R8
	XORQ R11, R11

probe:
	MOVQ R9, AX
	MULQ 8(SI)
	SHLQ $6, DX
	ADDQ (SI), DX               // the block
	XORQ R12, R12
	MISSING
	SETEQ R12
	ORQ  R12, R11
	ADDQ $24, SI
	DECQ R8
	JNZ  probe

	XORQ $1, R11
	MOVB R11, (R10)
	ADDQ $16, DI
	INCQ R10
	DECQ CX
	JNZ  loop
	VZEROUPPER

done:
	RET

// func addPairsAVX2(blocks []block, keys []Hash, fresh []bool) (n, set int)
//
// The same twice, for the lower and the upper halves of the words.
TEXT ·addPairsAVX2(SB), NOSPLIT, $0-88
	MOVQ blocks_base+0(FP), SI
	MOVQ blocks_len+8(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
	MOVQ fresh_base+48(FP), R10
	XORQ R8, R8
	XORQ R9, R9
	TESTQ CX, CX
	JZ   done
	CONSTANTS

loop:
	BLOCK
	VMOVDQU (DX), Y3
	VMOVDQU 32(DX), Y4
	LOWER
	MASKS(Y1, Y2)
	SET
	MOVQ AX, R13
	UPPER
	MASKS(Y1, Y2)
	SET
	ANDQ R13, AX
	VMOVDQU Y3, (DX)
	VMOVDQU Y4, 32(DX)
	XORQ R11, R11
	CMPQ AX, $0xFF
	SETNE R11
	MOVB R11, (R10)
	ADDQ R11, R8
	ADDQ $16, DI
	INCQ R10
	DECQ CX
	JNZ  loop
	VZEROUPPER

done:
	MOVQ R8, n+72(FP)
	MOVQ keys_len+32(FP), R13
	SHLQ $4, R13                // bits a key
	SUBQ R9, R13
	MOVQ R13, set+80(FP)
	RET

// func hasPairsAVX2(blocks []block, keys []Hash, fresh []bool)
//
// The same masks, and no write: a key is fresh if a bit of its masks is missing.
TEXT ·hasPairsAVX2(SB), NOSPLIT, $0-72
	MOVQ blocks_base+0(FP), SI
	MOVQ blocks_len+8(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
	MOVQ fresh_base+48(FP), R10
	TESTQ CX, CX
	JZ   done
	CONSTANTS

loop:
	BLOCK
	LOWER
	MASKS(Y1, Y2)
	BOTH
	MISSING
	SETNE (R10)
	ADDQ $16, DI
	INCQ R10
	DECQ CX
	JNZ  loop
	VZEROUPPER

done:
	RET

// func newInAllPairsAVX2(layers [][]block, keys []Hash, fresh []bool)
//
// The blocks of a key in all layers are fetched eight keys ahead. R11 is 1 once a layer has the key.
TEXT ·newInAllPairsAVX2(SB), NOSPLIT, $0-72
	MOVQ layers_base+0(FP), BX
	MOVQ keys_base+24(FP), DI
	MOVQ keys_len+32(FP), CX
	MOVQ fresh_base+48(FP), R10
	TESTQ CX, CX
	JZ   done
	CONSTANTS

loop:
	CMPQ CX, $8
	JLE  masks
	MOVQ 128(DI), R9            // Hi of the key after the next seven
	MOVQ BX, SI
	MOVQ layers_len+8(FP), R8

ahead:
	MOVQ R9, AX
	MULQ 8(SI)
	SHLQ $6, DX
	ADDQ (SI), DX
	PREFETCHT0 (DX)
	ADDQ $24, SI
	DECQ R8
	JNZ  ahead

masks:
	LOWER
	MASKS(Y1, Y2)
	BOTH
	MOVQ (DI), R9
	MOVQ BX, SI
	MOVQ layers_len+8(FP), R8
	XORQ R11, R11

probe:
	MOVQ R9, AX
	MULQ 8(SI)
	SHLQ $6, DX
	ADDQ (SI), DX               // the block
	XORQ R12, R12
	MISSING
	SETEQ R12
	ORQ  R12, R11
	ADDQ $24, SI
	DECQ R8
	JNZ  probe

	XORQ $1, R11
	MOVB R11, (R10)
	ADDQ $16, DI
	INCQ R10
	DECQ CX
	JNZ  loop
	VZEROUPPER

done:
	RET
