package keyed

import (
	"encoding/binary"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// The reservations of a file are blocks, too; one with more keys than a block can hold has
// several:
//
//	     0     4  n, number of keys, at most 4096; 0 in the last block, with zeroes for the next three
//	     4    16  id of the reservation: Hi, Lo
//	    20     8  the table's time when it was made
//	    28     8  and when it ends
//	    36   17n  keys: Hi, Lo (zero beside short entries), and a byte: 1 held, 2 committed,
//	              3 released, 4 lost to another
//	36+17n     4  CRC-32C of all before
const (
	reservedHead  = 32
	reservedBytes = 17
)

// appendReservation appends the blocks of a reservation.
func appendReservation(b []byte, r table.Reservation) []byte {
	for keys := r.Keys; len(keys) > 0; {
		n := min(len(keys), blockEntries)
		r.Keys, keys = keys[:n], keys[n:]
		b = appendReserved(b, r)
	}
	return b
}

// appendReserved appends one block.
func appendReserved(b []byte, r table.Reservation) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = le.AppendUint32(b, uint32(len(r.Keys)))
	for _, v := range []uint64{r.ID.Hi, r.ID.Lo, uint64(r.Made), uint64(r.End)} {
		b = le.AppendUint64(b, v)
	}
	for _, k := range r.Keys {
		b = le.AppendUint64(b, k.Key.Hi)
		b = le.AppendUint64(b, k.Key.Lo)
		b = append(b, byte(k.State))
	}
	return le.AppendUint32(b, bloom.Checksum(b[start:]))
}

// reservation decodes a block, without its length and checksum.
func reservation(b []byte) table.Reservation {
	le := binary.LittleEndian
	r := table.Reservation{
		ID:   bloom.Hash{Hi: le.Uint64(b), Lo: le.Uint64(b[8:])},
		Made: int64(le.Uint64(b[16:])), End: int64(le.Uint64(b[24:])),
	}
	for b = b[reservedHead:]; len(b) > 0; b = b[reservedBytes:] {
		r.Keys = append(r.Keys, table.ReservedKey{
			Key: bloom.Hash{Hi: le.Uint64(b), Lo: le.Uint64(b[8:])}, State: table.State(b[16]),
		})
	}
	return r
}
