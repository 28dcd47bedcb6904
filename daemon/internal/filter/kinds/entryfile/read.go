package entryfile

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// Receiver receives the contents of a file.
type Receiver interface {
	Put(entries ...table.Entry) error
	Flush() error                    // after the last Put
	Restore(table.Reservation) error // a part of a reservation
	Close() error
}

// Read reads the file: it calls begin with the header, which makes the Receiver of the entries.
// It returns the number of blocks, and the size. Damage is an error that wraps
// bloom.ErrCorrupt; after an error the Receiver is closed.
func (f Format) Read(path string, begin func(Header) Receiver) (blocks int, size int64, err error) {
	var into Receiver
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
			if into != nil {
				err = errors.Join(err, into.Close())
			}
		}
	}()
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, errors.Unwrap(err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	blocks, err = f.decode(bufio.NewReaderSize(file, int(min(st.Size(), 1<<20))), st.Size(), func(h Header) error {
		into = begin(h)
		return nil
	}, func(all []table.Entry) error { return into.Put(all...) }, func(r table.Reservation) error {
		if err := into.Flush(); err != nil { // the entries come first
			return err
		}
		return into.Restore(r)
	})
	if into != nil {
		err = errors.Join(err, into.Flush())
	}
	return blocks, st.Size(), err
}
