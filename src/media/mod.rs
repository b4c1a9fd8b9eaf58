//! Images, files and audio: sizes from headers, token math.
