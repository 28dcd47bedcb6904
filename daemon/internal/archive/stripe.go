package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// stripe says where the bytes of a stripe are. It is a part of a version's document.
type stripe struct {
	// File is the id of the GridFS file; empty for a stripe without a bit.
	File   string `bson:"file,omitempty"`
	Length int    `bson:"length"`
	CRC32C int64  `bson:"crc32c"`
	// SHA256 tells whether two stripes are the same. The checksum, which is meant for
	// damage, would once in a while take two different stripes for the same.
	SHA256 []byte `bson:"sha256,omitempty"`
}

// describe returns the stripe of these bytes, without a file.
func describe(data []byte) stripe {
	s := stripe{Length: len(data), CRC32C: int64(bloom.Checksum(data))}
	if !isZero(data) {
		sum := sha256.Sum256(data)
		s.SHA256 = sum[:]
	}
	return s
}

func (s stripe) empty() bool { return s.File == "" }

func (s stripe) same(other stripe) bool {
	return s.Length == other.Length && s.CRC32C == other.CRC32C && bytes.Equal(s.SHA256, other.SHA256)
}

func isZero(data []byte) bool {
	var zero [4096]byte
	for len(data) > len(zero) {
		if !bytes.Equal(data[:len(zero)], zero[:]) {
			return false
		}
		data = data[len(zero):]
	}
	return bytes.Equal(data, zero[:len(data)])
}

// or sets all bits of src in dst. Both have the same length; the length of a stripe is a
// multiple of a block's.
func or(dst, src []byte) {
	le := binary.LittleEndian
	for ; len(src) >= 8; dst, src = dst[8:], src[8:] {
		le.PutUint64(dst, le.Uint64(dst)|le.Uint64(src))
	}
}

// A file's id is "uri/5/<token>/12": the filter, the lease under which it was made, a
// random word of that writeback, and the stripe. So files of a dead writeback are recognized
// by their ids, even if it left nothing but chunks.

func fileID(filter string, lease int64, token string, stripe int) string {
	return fmt.Sprintf("%s/%d/%s/%d", filter, lease, token, stripe)
}

// leaseOf returns the lease in a file's id; ok is false if the file is not one of the filter.
func leaseOf(filter, id string) (n int64, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != filter {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	return n, err == nil
}

// filesOf matches the ids of all files of a filter: those that begin with "uri/". The
// character after the slash is 0.
func filesOf(filter string) bson.D {
	return bson.D{{Key: "_id", Value: bson.D{
		{Key: "$gte", Value: filter + "/"},
		{Key: "$lt", Value: filter + "0"},
	}}}
}

// newToken returns a word that no other writeback has.
func newToken() string { return rand.Text()[:10] }

// A stripe is a GridFS file of one chunk: at 4 MiB it is well below the 16 MiB that a
// document may have. The chunk's _id is the file's, so that it is read by the one index
// that every collection has. The driver's own GridFS would find chunks by files_id,
// for which some servers read all chunks.

// fileDoc and chunkDoc are documents of bitmap.files and bitmap.chunks, by MongoDB's
// GridFS specification.
type fileDoc struct {
	ID         string    `bson:"_id"`
	Length     int64     `bson:"length"`
	ChunkSize  int32     `bson:"chunkSize"`
	UploadDate time.Time `bson:"uploadDate"`
	Filename   string    `bson:"filename"`
	Metadata   fileMeta  `bson:"metadata"`
}

type fileMeta struct {
	Filter string `bson:"filter"`
	CRC32C int64  `bson:"crc32c"`
}

type chunkDoc struct {
	ID    string `bson:"_id"`
	File  string `bson:"files_id"`
	N     int32  `bson:"n"`
	Bytes []byte `bson:"data"`
}

// upload makes a file of data, which s describes, and verifies that it reads back the same.
func (a *Archive) upload(ctx context.Context, filter string, s stripe, data []byte) error {
	if err := a.fault("upload"); err != nil {
		return err
	}
	if err := a.send(ctx, filter, s, data); err != nil {
		return err
	}
	if err := a.fault("uploaded"); err != nil {
		return err
	}
	if err := a.fault("verify"); err != nil {
		return err
	}
	back, err := a.fetch(ctx, s)
	if err != nil {
		return fmt.Errorf("file %s, just uploaded: %w", s.File, err)
	}
	if !bytes.Equal(back, data) {
		return fmt.Errorf("file %s, just uploaded: %w: reads back as other bytes", s.File, errDamaged)
	}
	return nil
}

func (a *Archive) send(ctx context.Context, filter string, s stripe, data []byte) error {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	_, err := a.chunks.InsertOne(ctx, chunkDoc{ID: s.File, File: s.File, Bytes: data})
	if err != nil {
		return explain(ctx, err)
	}
	if err := a.fault("file"); err != nil {
		return err
	}
	_, err = a.files.InsertOne(ctx, fileDoc{
		ID: s.File, Length: int64(len(data)), ChunkSize: bloom.StripeBytes, UploadDate: time.Now(),
		Filename: s.File, Metadata: fileMeta{Filter: filter, CRC32C: s.CRC32C},
	})
	return explain(ctx, err)
}

// index makes the index by which other programs find the chunks of a file. The specification
// requires it of programs that write.
func (a *Archive) index(ctx context.Context) error {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	_, err := a.chunks.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys:    bson.D{{Key: "files_id", Value: 1}, {Key: "n", Value: 1}},
		Options: options.Index().SetUnique(true),
	})
	return explain(ctx, err)
}

// errDamaged is wrapped by the errors that fetch returns for bytes that are not those archived.
var errDamaged = errors.New("damaged")

// fetch reads the bytes of a stripe and checks them. Its error wraps errDamaged if the bytes
// are wrong; other errors mean that it could not read them.
func (a *Archive) fetch(ctx context.Context, s stripe) ([]byte, error) {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	raw, err := a.chunks.FindOne(ctx, bson.D{{Key: "_id", Value: s.File}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, fmt.Errorf("%w: file %s is missing", errDamaged, s.File)
	}
	if err != nil {
		return nil, explain(ctx, err)
	}
	_, data, ok := raw.Lookup("data").BinaryOK()
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: file %s has no data", errDamaged, s.File)
	case len(data) != s.Length:
		return nil, fmt.Errorf("%w: file %s has %d bytes, want %d", errDamaged, s.File, len(data), s.Length)
	}
	if got := int64(bloom.Checksum(data)); got != s.CRC32C {
		return nil, fmt.Errorf("%w: file %s: checksum %08x, want %08x", errDamaged, s.File, got, s.CRC32C)
	}
	return data, nil
}

// fetchOf is fetch for a stripe of a version.
func (a *Archive) fetchOf(ctx context.Context, v *Version, i int) ([]byte, error) {
	data, err := a.fetch(ctx, v.stripes[i])
	if errors.Is(err, errDamaged) {
		return nil, &DamageError{Filter: v.Spec.Name, Version: v.ID, Stripe: i, Reason: err.Error()}
	}
	return data, err
}
