#include "textflag.h"

// func plainRunAVX2(body []byte, pos int, dst []Span, limit int) (count, end int)
//
// SI body   DX len(body)   R8 opening quote   R10 cursor
// DI next span   CX spans left   R9 limit   R13 end of the last string
TEXT ·plainRunAVX2(SB), NOSPLIT, $0-80
	MOVQ body_base+0(FP), SI
	MOVQ body_len+8(FP), DX
	MOVQ pos+24(FP), R8
	MOVQ dst_base+32(FP), DI
	MOVQ dst_len+40(FP), CX
	MOVQ limit+56(FP), R9
	XORQ R13, R13

	MOVL $0x22222222, AX // quote
	VMOVD AX, X0
	VPBROADCASTD X0, Y0
	MOVL $0x5c5c5c5c, AX // backslash
	VMOVD AX, X1
	VPBROADCASTD X1, Y1
	MOVL $0x20202020, AX // below it, signed: control characters and not ASCII
	VMOVD AX, X2
	VPBROADCASTD X2, Y2

string:
	LEAQ 1(R8), R10

scan:
	LEAQ 32(R10), R11
	CMPQ R11, DX
	JHI  done
	VMOVDQU   (SI)(R10*1), Y3
	VPCMPEQB  Y0, Y3, Y4
	VPCMPEQB  Y1, Y3, Y5
	VPCMPGTB  Y3, Y2, Y6
	VPOR      Y4, Y5, Y5
	VPOR      Y5, Y6, Y6
	VPMOVMSKB Y6, AX
	TESTL     AX, AX
	JNZ       hit
	MOVQ R11, R10
	JMP  scan

hit:
	BSFL AX, AX
	ADDQ AX, R10
	CMPB (SI)(R10*1), $0x22
	JNE  done
	MOVQ R10, R11
	SUBQ R8, R11
	DECQ R11              // length
	JZ   done
	CMPQ R11, R9
	JGT  done
	INCQ R10
	MOVL R8, (DI)
	MOVL R10, 4(DI)
	ADDQ $8, DI
	MOVQ R10, R13
	DECQ CX
	JZ   done

	LEAQ 3(R10), R11
	CMPQ R11, DX
	JHI  done
	CMPB (SI)(R10*1), $0x2c // comma
	JNE  done
	LEAQ 1(R10), R8
	CMPB (SI)(R8*1), $0x22
	JEQ  string
	CMPB (SI)(R8*1), $0x20
	JNE  done
	INCQ R8
	CMPB (SI)(R8*1), $0x22
	JEQ  string

done:
	VZEROUPPER
	SUBQ dst_base+32(FP), DI
	SHRQ $3, DI
	MOVQ DI, count+64(FP)
	MOVQ R13, end+72(FP)
	RET
