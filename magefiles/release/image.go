package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/cr-clawer/urifilter/systemd"
)

// nobody is the user of an image, which has no names.
const nobody = 65532

// image makes an image of the static program and nothing else, as a file that docker load, podman load and ctr
// import take. It runs as a number, writes to its volume alone, and listens on all addresses, so that it needs
// tokens.
func (r *release) image(p systemd.Program, goarch string, program []byte) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	files := map[string][]byte{p.Name: program, "LICENSE": license}
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	for _, h := range []tar.Header{
		{Name: p.Name, Typeflag: tar.TypeReg, Mode: 0o755},
		{Name: "LICENSE", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "etc/" + p.Name + "/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "var/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "var/lib/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: strings.TrimPrefix(p.DataDir(), "/") + "/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: nobody, Gid: nobody},
	} {
		h.ModTime, h.Format, h.Size = r.time, tar.FormatPAX, int64(len(files[h.Name]))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(files[h.Name]); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(root.Bytes())), nil }, tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return err
	}
	made, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "go tool mage release"}})
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(listens(p))
	if err != nil {
		return err
	}
	data := p.DataDir()
	config := v1.Config{
		Entrypoint: []string{"/" + p.Name}, Cmd: []string{"serve"}, User: fmt.Sprintf("%d:%d", nobody, nobody), WorkingDir: data,
		Env:          []string{p.Env("LISTEN") + "=0.0.0.0:" + port, p.Env("DATA_DIR") + "=" + data, p.Env("AUTH_TOKENS_FILE") + "=/etc/" + p.Name + "/tokens.yaml"},
		ExposedPorts: map[string]struct{}{port + "/tcp": {}}, Volumes: map[string]struct{}{data: {}}, StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title": p.Name, "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.source": p.Documentation, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if p.Name == "urifilter" {
		config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD", "/" + p.Name, "ping"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute, Retries: 3}
	}
	file, err := made.ConfigFile() // with the layer
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Created, file.Config = goarch, "linux", v1.Time{Time: r.time}, config
	if made, err = mutate.ConfigFile(made, file); err != nil {
		return err
	}
	tag, err := name.NewTag(p.Name + ":" + r.number())
	if err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(r.dir, fmt.Sprintf("%s-%s-image-%s.tar", p.Name, r.version, goarch)), tag, made)
}

// zipped packs text without a time.
func zipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}
