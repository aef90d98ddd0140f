"""Uses tf.data as shown in its guides. It decodes JPEG files, crops or pads them to 482 x 415, standardizes them, and writes them as
float16 to a TFRecord file.

tensorflow_decoding.py whole|cropped INPUT OUTPUT RECORDS THREADS PROCESSES
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from clocked import clocked

HEIGHT, WIDTH = 482, 415


def whole(content: Any) -> Any:
    return tf.io.decode_jpeg(content, channels=3)


def cropped(content: Any) -> Any:
    """Decodes only the pixels that are kept, because decoding a crop is faster than decoding the full image."""
    height, width = tf.unstack(tf.io.extract_jpeg_shape(content)[:2])
    left = tf.maximum(0, (width - WIDTH) // 2)
    top = tf.maximum(0, (height - HEIGHT) // 2)
    return tf.io.decode_and_crop_jpeg(content, [top, left, tf.minimum(height, HEIGHT), tf.minimum(width, WIDTH)], channels=3)


def convert(kind: str, files: list[str], place: Path, threads: int) -> int:
    decode = {"whole": whole, "cropped": cropped}[kind]

    def one(path: Any) -> Any:
        pixels = tf.image.resize_with_crop_or_pad(decode(tf.io.read_file(path)), HEIGHT, WIDTH)
        return tf.cast(tf.image.per_image_standardization(pixels), tf.float16)

    count = 0
    with tf.io.TFRecordWriter(str(place)) as out:
        for image in tf.data.Dataset.from_tensor_slices(files).map(one, num_parallel_calls=threads).prefetch(4).as_numpy_iterator():
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()]))
            out.write(tf.train.Example(features=tf.train.Features(feature={"image": feature})).SerializeToString())
            count += 1
    return count


def limit_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def main(kind: str, source: Path, output: Path, records: int, threads: int, processes: int) -> None:
    files = sorted(map(str, source.glob("*/*.jpg")))[:records]
    if processes == 1:
        limit_threads(threads)
        clocked(lambda: convert(kind, files, output / "data.tfrecords", threads))
        return
    each = -(-len(files) // processes)
    parts = [files[first : first + each] for first in range(0, len(files), each)]
    places = [output / f"data-{number}.tfrecords" for number in range(len(parts))]
    # The clock starts once all processes have imported TensorFlow.
    with ProcessPoolExecutor(processes, get_context("spawn"), limit_threads, (threads,)) as pool:
        list(pool.map(abs, range(processes), chunksize=1))
        clocked(lambda: sum(pool.map(convert, [kind] * len(parts), parts, places, [threads] * len(parts))), waits=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:7]))
