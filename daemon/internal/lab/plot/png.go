package plot

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

type raster struct {
	img   *image.RGBA
	font  *opentype.Font
	err   error // the first
	faces map[float64]font.Face
}

func newPNG() *raster {
	r := &raster{img: image.NewRGBA(image.Rect(0, 0, int(width*pixels), int(height*pixels))), faces: map[float64]font.Face{}}
	draw.Draw(r.img, r.img.Bounds(), image.White, image.Point{}, draw.Src)
	r.font, r.err = opentype.Parse(goregular.TTF)
	return r
}

func paint(colour int) image.Image {
	c := palette[colour][0]
	return image.NewUniform(color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255})
}

// fill fills a polygon.
func (r *raster) fill(colour int, points ...[2]float64) {
	v := vector.NewRasterizer(r.img.Bounds().Dx(), r.img.Bounds().Dy())
	for i, p := range points {
		if i == 0 {
			v.MoveTo(float32(p[0]*pixels), float32(p[1]*pixels))
		} else {
			v.LineTo(float32(p[0]*pixels), float32(p[1]*pixels))
		}
	}
	v.ClosePath()
	v.Draw(r.img, r.img.Bounds(), paint(colour), image.Point{})
}

func (r *raster) line(x1, y1, x2, y2, thick float64, colour int) {
	long := math.Hypot(x2-x1, y2-y1)
	if long == 0 {
		return
	}
	dx, dy := (y2-y1)/long*thick/2, -(x2-x1)/long*thick/2
	r.fill(colour, [2]float64{x1 + dx, y1 + dy}, [2]float64{x2 + dx, y2 + dy}, [2]float64{x2 - dx, y2 - dy}, [2]float64{x1 - dx, y1 - dy})
}

func (r *raster) dot(x, y, radius float64, colour int) {
	const corners = 32
	var points [][2]float64
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		points = append(points, [2]float64{x + radius*cos, y + radius*sin})
	}
	r.fill(colour, points...)
}

func (r *raster) face(size float64) font.Face {
	if f := r.faces[size]; f != nil || r.err != nil {
		return f
	}
	f, err := opentype.NewFace(r.font, &opentype.FaceOptions{Size: size * pixels, DPI: 72})
	if r.err = err; err != nil {
		return nil
	}
	r.faces[size] = f
	return f
}

func (r *raster) text(x, y, size, anchor float64, colour int, s string) {
	if f := r.face(size); f != nil {
		r.write(r.img, f, x*pixels, y*pixels, anchor, colour, s)
	}
}

func (r *raster) write(to draw.Image, f font.Face, x, y, anchor float64, colour int, s string) {
	d := font.Drawer{Dst: to, Src: paint(colour), Face: f}
	d.Dot = fixed.Point26_6{X: fixed.Int26_6(x*64) - fixed.Int26_6(anchor*float64(d.MeasureString(s))), Y: fixed.Int26_6(y * 64)}
	d.DrawString(s)
}

func (r *raster) upright(x, y, size float64, colour int, s string) {
	f := r.face(size)
	if f == nil {
		return
	}
	long, high := font.MeasureString(f, s).Ceil()+2, int(2*size*pixels)
	flat := image.NewRGBA(image.Rect(0, 0, long, high))
	r.write(flat, f, 1, float64(high)*0.7, 0, colour, s)
	turned := image.NewRGBA(image.Rect(0, 0, high, long))
	for i := range long {
		for j := range high {
			turned.Set(j, long-1-i, flat.At(i, j))
		}
	}
	at := image.Pt(int(x*pixels-float64(high)*0.7), int(y*pixels)-long/2)
	draw.Draw(r.img, turned.Bounds().Add(at), turned, image.Point{}, draw.Over)
}

func (r *raster) bytes() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	var b bytes.Buffer
	err := png.Encode(&b, r.img)
	return b.Bytes(), err
}
