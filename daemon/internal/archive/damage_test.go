package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// TestDamagedChunk changes data in the database behind the archive's back.
func TestDamagedChunk(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		change bson.D // nil: the chunk is deleted
		want   string
	}{
		"a byte changed": {bson.D{{Key: "data", Value: nil}}, "checksum"},
		"cut short":      {bson.D{{Key: "data", Value: []byte("short")}}, "5 bytes, want 65536"},
		"no data":        {bson.D{{Key: "data", Value: 7}}, "no data"},
		"missing":        {nil, "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, r *rig) {
				ctx := context.Background()
				a := r.open()
				h := header(2)
				first := newSet(t, h).add(key(h, 1, 1))
				r.write(a, "uri", first)
				v := r.write(a, "uri", newSet(t, h).add(key(h, 1, 2)))
				id := bson.D{{Key: "_id", Value: v.stripes[1].File}}

				var err error
				switch {
				case damage.change == nil:
					_, err = a.chunks.DeleteOne(ctx, id)
				case damage.change[0].Value == nil:
					raw, findErr := a.chunks.FindOne(ctx, id).Raw()
					if findErr != nil {
						t.Fatal(findErr)
					}
					_, data, _ := raw.Lookup("data").BinaryOK()
					data = bytes.Clone(data)
					data[4711] ^= 0x10
					_, err = a.chunks.UpdateOne(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "data", Value: data}}}})
				default:
					_, err = a.chunks.UpdateOne(ctx, id, bson.D{{Key: "$set", Value: damage.change}})
				}
				if err != nil {
					t.Fatal(err)
				}

				sink := newSet(t, h)
				_, writeErr := a.Writeback(ctx, spec("uri"), newSet(t, h).add(key(h, 1, 3)), nil)
				for what, err := range map[string]error{
					"restore": a.Restore(ctx, v, sink, nil), "verify": a.Verify(ctx, v, nil), "writeback": writeErr,
				} {
					var d *DamageError
					if !errors.As(err, &d) || d.Version != "uri-2" || d.Stripe != 1 {
						t.Errorf("%s: %v, want a *DamageError of uri-2, stripe 1", what, err)
						continue
					}
					if text := err.Error(); !strings.Contains(text, damage.want) || !strings.Contains(text, "urifilter bitmap restore --version OLDER uri") {
						t.Errorf("%s: %q, want %q and the mending", what, text, damage.want)
					}
				}
				if sink.committed != 0 || sink.merged != 0 {
					t.Errorf("%d stripes merged, %d commits of damaged bytes", sink.merged, sink.committed)
				}

				// The two repairs that the error names.
				all, err := a.Versions(ctx, "uri")
				if err != nil || len(all) != 2 {
					t.Fatalf("versions %v, %v", all, err)
				}
				older := newSet(t, h)
				if err := a.Restore(ctx, all[1], older, nil); err != nil {
					t.Fatalf("the older version: %v", err)
				}
				sameContent(t, older, first)
				if _, err := a.versions.UpdateMany(ctx, bson.M{"_id": "uri-2"}, bson.M{"$set": bson.M{"status": "off"}}); err != nil {
					t.Fatal(err)
				}
				r.write(a, "uri", newSet(t, h).add(key(h, 1, 3)))
				got, _ := r.restored(a, "uri")
				sameContent(t, got, newSet(t, h).add(key(h, 1, 1), key(h, 1, 3)))
			})
		})
	}
}

// deleteOne removes a document behind the archive's back.
func deleteOne(t *testing.T, c *mongo.Collection, id string) {
	t.Helper()
	if res, err := c.DeleteOne(context.Background(), bson.D{{Key: "_id", Value: id}}); err != nil || res.DeletedCount != 1 {
		t.Fatalf("delete %s: %+v, %v", id, res, err)
	}
}

// TestLostStripeIsSentAgain writes an unchanged bit-map back whose newest version has lost a
// stripe. Every version that is published after that can be restored.
func TestLostStripeIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, a *Archive, s stripe){
		"no chunk": func(t *testing.T, a *Archive, s stripe) { deleteOne(t, a.chunks, s.File) },
		"no file":  func(t *testing.T, a *Archive, s stripe) { deleteOne(t, a.files, s.File) },
		"neither": func(t *testing.T, a *Archive, s stripe) {
			deleteOne(t, a.files, s.File)
			deleteOne(t, a.chunks, s.File)
		},
		"another length": func(t *testing.T, a *Archive, s stripe) {
			set := bson.M{"$set": bson.M{"length": int64(5)}}
			if _, err := a.files.UpdateOne(context.Background(), bson.M{"_id": s.File}, set); err != nil {
				t.Fatal(err)
			}
		},
		"other bytes": func(t *testing.T, a *Archive, s stripe) {
			set := bson.M{"$set": bson.M{"data": make([]byte, s.Length)}}
			if _, err := a.chunks.UpdateOne(context.Background(), bson.M{"_id": s.File}, set); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, r *rig) {
				a := r.open()
				h := header(2)
				src := newSet(t, h).add(key(h, 0, 1), key(h, 1, 1))
				first := r.write(a, "uri", src)
				v := r.write(a, "uri", src.add(key(h, 1, 2)))
				lose(t, a, v.stripes[1])
				for i := range 4 {
					again := r.write(a, "uri", src)
					if sent := again.Uploaded; i == 0 && sent != int64(v.stripes[1].Length) || i > 0 && sent != 0 {
						t.Errorf("writeback %d after the loss: %d bytes sent", i+1, sent)
					}
					got, _ := r.restored(a, "uri")
					sameContent(t, got, src)
					if i == 0 { // three were to stay, and one of them is lost
						if err := a.Verify(context.Background(), first, nil); err != nil {
							t.Errorf("the sound version before the loss: %v", err)
						}
					}
				}
				all, err := a.Versions(context.Background(), "uri")
				if err != nil || len(all) != 3 {
					t.Fatalf("versions %v, %v; want 3", all, err)
				}
				for _, v := range all {
					if err := a.Verify(context.Background(), v, nil); err != nil {
						t.Errorf("%s: %v", v.ID, err)
					}
				}
				r.noOrphans(a)
			})
		})
	}
}

// TestLostVersionIsNotCounted has a version that cannot be restored between two that can.
func TestLostVersionIsNotCounted(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open(func(o *Options) { o.Keep = 2 })
		var all []Version
		for generation := range uint64(3) { // bits of two generations do not mix
			h := header(1)
			h.Generation += generation
			all = append(all, r.write(a, "uri", newSet(t, h).add(key(h, 0, generation))))
			if generation == 1 {
				deleteOne(t, a.chunks, all[1].stripes[0].File)
			}
		}
		for _, i := range []int{0, 2} {
			if err := a.Verify(context.Background(), all[i], nil); err != nil {
				t.Errorf("%s: %v", all[i].ID, err)
			}
		}
	})
}

// TestReadBackInTurn: of a bit-map of any size each stripe is read back after some writebacks, and
// no writeback reads more than its part.
func TestReadBackInTurn(t *testing.T) {
	for _, stripes := range []int{1, 2, maxReadBack, maxReadBack + 1, 2 * maxReadBack, 118, 1000} {
		read := map[int]bool{}
		rounds := (stripes + maxReadBack - 1) / maxReadBack
		for number := range rounds {
			w := &writeback{base: &Version{number: int64(number + 7), stripes: make([]stripe, stripes)}}
			n := 0
			for i := range stripes {
				if w.turn(i) {
					n++
					read[i] = true
				}
			}
			if want := min(stripes, maxReadBack); n != want {
				t.Errorf("%d stripes: %d read back, want %d", stripes, n, want)
			}
		}
		if len(read) != stripes {
			t.Errorf("%d stripes: %d read back in %d writebacks", stripes, len(read), rounds)
		}
	}
}

func TestVerifyReportsAllDamage(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		a := r.open()
		h := header(3)
		v := r.write(a, "uri", newSet(t, h).add(key(h, 0, 1), key(h, 1, 1), key(h, 2, 1)))
		for _, i := range []int{0, 2} {
			if _, err := a.chunks.DeleteOne(ctx, bson.D{{Key: "_id", Value: v.stripes[i].File}}); err != nil {
				t.Fatal(err)
			}
		}
		done := 0
		err := a.Verify(ctx, v, func(int, int) { done++ })
		if err == nil || !strings.Contains(err.Error(), "stripe 0") || !strings.Contains(err.Error(), "stripe 2") || strings.Contains(err.Error(), "stripe 1:") {
			t.Errorf("%v, want stripes 0 and 2", err)
		}
		if done != 3 {
			t.Errorf("progress told %d times, want 3", done)
		}
	})
}

func TestDamagedDocument(t *testing.T) {
	t.Parallel()
	newer := bloomOfNewerFormat(t)
	for name, c := range map[string]struct {
		set  bson.M
		want string
	}{
		"newer format":         {bson.M{"format": 5}, "uri-1: format 5: this urifilter reads the formats 1 to 4"},
		"newer bit-map":        {bson.M{"header": newer}, "uri-1: bit-map format 5"},
		"broken header":        {bson.M{"header": []byte("URIBLOOM")}, "uri-1: corrupt bit-map"},
		"stripes are missing":  {bson.M{"stripes": bson.A{}}, "0 stripes, its header says 2"},
		"a stripe's length":    {bson.M{"stripes": bson.A{bson.M{"length": 1}, bson.M{"length": 65536}}}, "stripe 0 of 1 bytes"},
		"a field's type":       {bson.M{"stripes": "none"}, "version uri-1: "},
		"another's collection": {bson.M{"format": "x"}, "filter_bit_map: document"},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, r *rig) {
				ctx := context.Background()
				a := r.open()
				h := header(2)
				r.write(a, "uri", newSet(t, h).add(key(h, 1, 1)))
				r.write(a, "ip", newSet(t, h).add(key(h, 1, 1)))
				before, _ := r.files(a)
				if _, err := a.versions.UpdateOne(ctx, bson.M{"_id": "uri-1"}, bson.M{"$set": c.set}); err != nil {
					t.Fatal(err)
				}
				_, latest := a.Latest(ctx, "uri")
				listed, versions := a.Versions(ctx, "")
				if len(listed) != 1 || listed[0].ID != "ip-1" {
					t.Errorf("Versions: %v, want ip", listed)
				}
				_, write := a.Writeback(ctx, spec("uri"), newSet(t, h).add(key(h, 1, 2)), nil)
				for what, err := range map[string]error{"Latest": latest, "Versions": versions, "Writeback": write} {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s: %v, want %q", what, err, c.want)
					}
				}
				if all, bad, err := a.Newest(ctx); err != nil || len(all) != 1 || all[0].ID != "ip-1" || len(bad) != 1 || !strings.Contains(fmt.Sprint(bad["uri"]), c.want) {
					t.Errorf("Newest: %v, %v, %v, want ip, and why uri cannot be used", all, bad, err)
				}
				if _, err := a.versions.DeleteOne(ctx, bson.M{"_id": "ip-1"}); err != nil {
					t.Fatal(err)
				}
				var format *FormatError
				if name == "newer format" && (!errors.As(latest, &format) || format.Format != 5) {
					t.Errorf("%v, want a *FormatError", latest)
				}
				if strings.Contains(name, "broken") || strings.Contains(name, "stripe") {
					// The repair that the hint names.
					if _, err := a.versions.UpdateOne(ctx, bson.M{"_id": "uri-1"}, bson.M{"$set": bson.M{"status": "off"}}); err != nil {
						t.Fatal(err)
					}
					if all, err := a.Versions(ctx, ""); len(all) != 0 || err != nil {
						t.Errorf("switched off: %v, %v", all, err)
					}
				}
				if after, _ := r.files(a); len(after) != len(before) {
					t.Errorf("%d files, %d before", len(after), len(before))
				}
			})
		})
	}
}

func bloomOfNewerFormat(t *testing.T) []byte {
	t.Helper()
	b, err := header(2).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	b[8] = 5
	sum := bloom.Checksum(b[:124])
	for i := range 4 {
		b[124+i] = byte(sum >> (8 * i))
	}
	return b
}

// TestRemovedMeanwhile restores a version that later writebacks have removed.
func TestRemovedMeanwhile(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open(func(o *Options) { o.Keep = 1 })
		h := header(1)
		src := newSet(t, h)
		v := r.write(a, "uri", src.add(key(h, 0, 1)))
		r.write(a, "uri", src.add(key(h, 0, 2)))
		sink := newSet(t, h)
		if err := a.Restore(context.Background(), v, sink, nil); !errors.Is(err, ErrRemoved) {
			t.Errorf("%v, want ErrRemoved", err)
		}
		if sink.committed != 0 {
			t.Error("it was committed")
		}
	})
}

// TestIsGridFS reads a stripe as any other program would: with the driver's GridFS.
func TestIsGridFS(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		h := header(2)
		src := newSet(t, h).add(key(h, 0, 1), key(h, 1, 1))
		v := r.write(a, "uri", src)
		bucket := a.versions.Database().GridFSBucket(options.GridFSBucket().SetName("bitmap"))
		for i, s := range v.stripes {
			var got bytes.Buffer
			if _, err := bucket.DownloadToStream(context.Background(), s.File, &got); err != nil {
				t.Fatal(err)
			}
			if want := src.Map.Stripe(i, make([]byte, bloom.StripeBytes)); !bytes.Equal(got.Bytes(), want) {
				t.Errorf("stripe %d: %d bytes differ from the map's %d", i, got.Len(), len(want))
			}
		}
		if err := bucket.Delete(context.Background(), v.stripes[0].File); err != nil {
			t.Fatal(err)
		}
		if n, err := a.chunks.CountDocuments(context.Background(), bson.M{"files_id": v.stripes[0].File}); n != 0 || err != nil {
			t.Errorf("%d chunks left, %v", n, err)
		}
		_, err := bucket.OpenDownloadStream(context.Background(), v.stripes[0].File)
		if !errors.Is(err, mongo.ErrFileNotFound) {
			t.Errorf("%v, want no file", err)
		}
	})
}

// TestUploadIsReadBack damages what was just uploaded: no version may refer to it.
func TestUploadIsReadBack(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		ctx := context.Background()
		other := r.open()
		a := r.open(func(o *Options) {
			o.Fault = func(label string) error {
				if label != "verify" {
					return nil
				}
				zero := bson.M{"data": make([]byte, header(1).Bytes())}
				_, err := other.chunks.UpdateMany(ctx, bson.M{}, bson.M{"$set": zero})
				return err
			}
		})
		h := header(1)
		src := newSet(t, h).add(key(h, 0, 1))
		if _, err := a.Writeback(ctx, spec("uri"), src, nil); err == nil || !strings.Contains(err.Error(), "just uploaded: damaged") {
			t.Errorf("%v, want that the upload is damaged", err)
		}
		if _, err := a.Latest(ctx, "uri"); !errors.Is(err, ErrNone) {
			t.Errorf("Latest: %v, want ErrNone", err)
		}
		r.write(other, "uri", src)
		got, _ := r.restored(other, "uri")
		sameContent(t, got, src)
	})
}
