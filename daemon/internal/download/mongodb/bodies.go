package mongodb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// chunkBytes is the size of all chunks in GridFS but the last.
const chunkBytes = 1 << 20

// fileDoc and chunkDoc are as GridFS defines them, see
// https://github.com/mongodb/specifications/blob/master/source/gridfs/gridfs-spec.md. The _id of
// a chunk says which chunk it is, so that a chunk that is sent twice is stored once.
type fileDoc struct {
	ID       string    `bson:"_id"`
	Length   int64     `bson:"length"`
	Chunk    int32     `bson:"chunkSize"`
	Uploaded time.Time `bson:"uploadDate"`
	Name     string    `bson:"filename"`
	Metadata fileMeta  `bson:"metadata"`
}

type fileMeta struct {
	Job  int64  `bson:"job"`
	Task string `bson:"task"`
}

type chunkDoc struct {
	ID   string `bson:"_id"`
	File string `bson:"files_id"`
	N    int32  `bson:"n"`
	Data []byte `bson:"data"`
}

func bodyFile(mark bson.ObjectID) string    { return mark.Hex() + "-body" }
func recordsFile(mark bson.ObjectID) string { return mark.Hex() + "-records" }

func chunkID(file string, n int32) string { return fmt.Sprintf("%s/%d", file, n) }

// taken is a body whose start has been read.
type taken struct {
	start []byte
	all   io.Reader // start, and what follows it; nil: nothing does
	sum   hash.Hash // of what was read
}

// readBody reads a body, up to limit bytes and one more.
func readBody(ctx context.Context, r io.Reader, limit int) (taken, error) {
	t := taken{sum: sha256.New()}
	if r == nil {
		return t, nil
	}
	r = io.TeeReader(download.UntilDone(ctx, r), t.sum)
	var err error
	if t.start, err = io.ReadAll(io.LimitReader(r, int64(limit)+1)); err != nil {
		return taken{}, err
	}
	if len(t.start) > limit {
		t.all = io.MultiReader(bytes.NewReader(t.start), r)
	}
	return t, nil
}

// upload stores a body, or records, in GridFS: the chunks one after the other, then the file. It returns the length.
func (s *Store) upload(ctx context.Context, file string, task download.Task, now moment, from io.Reader) (length int64, _ error) {
	buf := make([]byte, chunkBytes)
	for n := int32(0); ; n++ {
		got, err := io.ReadFull(from, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		if got > 0 {
			if err := s.insert(ctx, s.chunk, chunkDoc{ID: chunkID(file, n), File: file, N: n, Data: buf[:got]}); err != nil {
				return 0, err
			}
			length += int64(got)
		}
		if err != nil {
			break
		}
	}
	return length, s.insert(ctx, s.files, fileDoc{
		ID: file, Length: length, Chunk: chunkBytes, Uploaded: now.least, Name: task.ID, Metadata: fileMeta{task.Job, task.ID},
	})
}

// removeFiles removes files, their chunks first.
func (s *Store) removeFiles(ctx context.Context, files []string) error {
	if _, err := s.chunk.DeleteMany(ctx, doc("files_id", among(files))); err != nil {
		return err
	}
	_, err := s.files.DeleteMany(ctx, doc("_id", among(files)))
	return err
}

// open opens a file. It is read chunk by chunk; a missing chunk is an error.
func (s *Store) open(ctx context.Context, file string) (io.ReadCloser, error) {
	var f fileDoc
	err := s.retry(ctx, func(ctx context.Context, _ bool) error { return s.files.FindOne(ctx, doc("_id", file)).Decode(&f) })
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, download.ErrNoData // its job has been dropped since
	}
	if err != nil {
		return nil, err
	}
	return &fileReader{ctx: ctx, s: s, file: f}, nil
}

// fileReader reads a file of GridFS.
type fileReader struct {
	ctx  context.Context // of the call that opened it
	s    *Store
	file fileDoc
	next int32
	read int64
	buf  []byte
	err  error
}

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 && r.err == nil {
		r.err = r.fill()
	}
	if len(r.buf) == 0 {
		return 0, r.err
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

func (r *fileReader) fill() error {
	if r.read >= r.file.Length {
		return io.EOF
	}
	var c chunkDoc
	err := r.s.retry(r.ctx, func(ctx context.Context, _ bool) error {
		return r.s.chunk.FindOne(ctx, doc("_id", chunkID(r.file.ID, r.next))).Decode(&c)
	})
	if errors.Is(err, mongo.ErrNoDocuments) || err == nil && len(c.Data) == 0 {
		return fmt.Errorf("body of task %s: chunk %d is missing: its job was dropped, or somebody removed it", r.file.Metadata.Task, r.next)
	}
	r.buf, r.next, r.read = c.Data, r.next+1, r.read+int64(len(c.Data))
	return err
}

func (r *fileReader) Close() error {
	r.buf, r.err = nil, errors.New("the body is closed")
	return nil
}
